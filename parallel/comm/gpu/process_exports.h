// ProcessExports: the memory and events on the GPU of a rank that is a process, which the other
// ranks open by CUDA IPC.
//
// A rank shows them on a card in shared memory. Memory is cut from segments, and segment #k has
// place k % kMaxSegments. When the owner needs a new segment, it retires the segments that are
// empty. The other ranks close a segment that they see retired, and the owner frees it once no rank
// has it open. So tensors may grow without end: besides the segments in use there is at most one
// generation that waits to be closed.

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "ringrad/core/gpu/block_pool.h"
#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/gpu/device_links.h"

namespace ringrad {

// What a rank shows the others.
struct ProcessCard {
  static constexpr std::size_t kMaxSegments = 64;

  struct Segment {
    cudaIpcMemHandle_t handle;
    std::atomic<bool> retired{false};
    std::atomic<int> num_open{0};  // other ranks that have it open
  };

  cudaUUID_t gpu{};
  int resident_blocks = 0;     // of kernels that wait for other ranks
  std::uintptr_t mailbox = 0;  // its name; only if there are resident blocks
  /// The number of other ranks that may use the members below, or have queued work that does.
  std::atomic<int> num_users{0};
  std::array<Segment, kMaxSegments> segments{};
  std::array<cudaIpcEventHandle_t, DeviceLinks::kEvents> events{};
};

class ProcessExports {
 public:
  static constexpr std::size_t kMaxSegments = ProcessCard::kMaxSegments;
  static constexpr std::size_t kSegmentBytes = std::size_t{32} << 20;  ///< the smallest segment
  static constexpr std::size_t kAlignment = 256;

  ProcessExports(Device device, std::shared_ptr<std::byte> card)
      : device_(device),
        keeps_card_(std::move(card)),
        card_(*new (keeps_card_.get()) ProcessCard) {}
  ~ProcessExports() {
    for (const cudaEvent_t event : events_)
      if (event != nullptr) cudaEventDestroy(event);
    for (const Segment& segment : segments_) cudaFree(segment.begin);
  }
  ProcessExports(const ProcessExports&) = delete;
  ProcessExports& operator=(const ProcessExports&) = delete;

  ProcessCard& card() const { return card_; }
  bool nobody_uses_them() const { return card_.num_users.load(std::memory_order_acquire) == 0; }

  cudaEvent_t event(std::size_t number, Where where) {
    cudaEvent_t& event = events_[number];
    if (event == nullptr) {
      RINGRAD_CUDA_CHECK(
          cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess), where);
      RINGRAD_CUDA_CHECK(cudaIpcGetEventHandle(&card_.events[number], event), where);
    }
    return event;
  }

  std::byte* allocate(std::size_t bytes, Where where) {
    const std::size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
    // Work on one stream may follow each other in the same memory.
    const PoolKey pool{this, current_stream(device_).handle(), false};
    const std::lock_guard lock(mutex_);
    if (const Block* block = blocks_.take(pool, rounded, kAlignment)) return block->address;
    const std::size_t size = std::max(rounded, kSegmentBytes);
    return blocks_
        .add({.pool = pool,
              .address = add_segment(size, where),
              .bytes = size,
              .stream_owner = current_stream(device_).owner()},
             rounded, kAlignment)
        ->address;
  }

  void release(std::byte* address) {
    const std::lock_guard lock(mutex_);
    blocks_.release(blocks_.find(address));
  }

  // The number of the segment in which p lies, -1 if it lies in none.
  std::int64_t find(const std::byte* p) const {
    const std::lock_guard lock(mutex_);
    for (const Segment& segment : segments_)
      if (p >= segment.begin && p < segment.begin + segment.bytes) return segment.number;
    return -1;
  }

  std::byte* begin(std::int64_t number) const {
    const std::lock_guard lock(mutex_);
    return segments_[static_cast<std::size_t>(number) % kMaxSegments].begin;
  }

 private:
  struct Segment {
    std::byte* begin = nullptr;  // null: the place is free
    std::size_t bytes = 0;
    std::int64_t number = -1;  // of the latest one in this place
  };

  std::byte* add_segment(std::size_t bytes, Where where) {
    const DeviceGuard guard(device_, where);
    retire_unused();
    free_retired();
    const auto place = std::find_if(segments_.begin(), segments_.end(),
                                    [](const Segment& segment) { return !segment.begin; });
    RINGRAD_CHECK(
        place != segments_.end(), OutOfMemoryError, where, "process group: ", kMaxSegments,
        " segments of memory for other ranks must do; got a need of ", bytes, " bytes more");
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) cudaGetLastError();
    RINGRAD_CHECK(status != cudaErrorMemoryAllocation, OutOfMemoryError, where,
                  "process group: ", bytes, " bytes for other ranks must be available on ", device_,
                  "; got less");
    RINGRAD_CUDA_CHECK(status, where);
    const std::int64_t index = place - segments_.begin();
    place->begin = static_cast<std::byte*>(memory);
    place->bytes = bytes;
    place->number = place->number < 0 ? index : place->number + std::int64_t{kMaxSegments};
    RINGRAD_CUDA_CHECK(
        cudaIpcGetMemHandle(&card_.segments[static_cast<std::size_t>(index)].handle, memory),
        where);
    return place->begin;
  }

  // Nothing lies in them, and what lay there was used in the order of the
  // pool's stream, by other ranks too: a collective ends on it when they have
  // done their part. So once the stream is done, no other rank uses them.
  void retire_unused() {
    for (Block* const block : blocks_.free_segments(this)) {
      if (cudaStreamQuery(block->pool.stream) != cudaSuccess) continue;
      const auto is_this = [&](const Segment& segment) { return segment.begin == block->address; };
      const auto place = std::find_if(segments_.begin(), segments_.end(), is_this);
      entry_of(*place).retired.store(true, std::memory_order_release);
      blocks_.remove(block);
    }
  }

  void free_retired() {
    for (Segment& segment : segments_) {
      ProcessCard::Segment& entry = entry_of(segment);
      if (!entry.retired.load(std::memory_order_relaxed) ||
          entry.num_open.load(std::memory_order_acquire) > 0)
        continue;
      cudaFree(segment.begin);
      segment.begin = nullptr;
      segment.bytes = 0;
      entry.retired.store(false, std::memory_order_relaxed);
    }
  }

  ProcessCard::Segment& entry_of(const Segment& segment) {
    return card_.segments[static_cast<std::size_t>(&segment - segments_.data())];
  }

  const Device device_;
  const std::shared_ptr<std::byte> keeps_card_;
  ProcessCard& card_;
  mutable std::mutex mutex_;
  std::array<Segment, kMaxSegments> segments_;
  BlockPool blocks_;
  std::vector<cudaEvent_t> events_ = std::vector<cudaEvent_t>(DeviceLinks::kEvents);
};

}  // namespace ringrad
