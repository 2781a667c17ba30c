#include "parallel/comm/process_links.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "core/block_pool.h"
#include "core/cuda_check.h"
#include "core/stream.h"

namespace ringrad {
namespace {

constexpr std::size_t kMaxSegments = 64;
constexpr std::size_t kSegmentBytes = std::size_t{32} << 20;
constexpr std::size_t kAlignment = 256;
constexpr auto kLongestFarewell = std::chrono::seconds(1);
constexpr int kSegmentShift = 48;  // of its number in a name

// What a rank shows the others.
struct ProcessCard {
  struct Segment {
    cudaIpcMemHandle_t handle;
    std::size_t bytes;
  };

  cudaUUID_t gpu{};
  int resident_blocks = 0;     // of kernels that wait for other ranks
  std::uintptr_t mailbox = 0;  // its name; only if there are resident blocks
  std::atomic<int> num_users{
      0};  // other ranks that may use what follows, or have work queued that does
  std::array<Segment, kMaxSegments> segments{};
  std::array<cudaIpcEventHandle_t, DeviceLinks::kEvents> events{};
};

// --- What this rank has for others: memory and events ---

class Exports {
 public:
  Exports(Device device, std::shared_ptr<std::byte> card)
      : device_(device),
        keeps_card_(std::move(card)),
        card_(*new (keeps_card_.get()) ProcessCard) {}
  ~Exports() {
    for (const cudaEvent_t event : events_)
      if (event != nullptr) cudaEventDestroy(event);
    for (std::byte* segment : segments_) cudaFree(segment);
  }
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;

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

  // -1 if p lies in none.
  int find(const std::byte* p) const {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < segments_.size(); ++i)
      if (p >= segments_[i] && p < segments_[i] + card_.segments[i].bytes)
        return static_cast<int>(i);
    return -1;
  }

  std::byte* begin(std::size_t segment) const {
    const std::lock_guard lock(mutex_);
    return segments_[segment];
  }

 private:
  std::byte* add_segment(std::size_t bytes, Where where) {
    RINGRAD_CHECK(
        segments_.size() < kMaxSegments, OutOfMemoryError, where, "process group: ", kMaxSegments,
        " segments of memory for other ranks must do; got a need of ", bytes, " bytes more");
    const DeviceGuard guard(device_, where);
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) cudaGetLastError();
    RINGRAD_CHECK(status != cudaErrorMemoryAllocation, OutOfMemoryError, where,
                  "process group: ", bytes, " bytes for other ranks must be available on ", device_,
                  "; got less");
    RINGRAD_CUDA_CHECK(status, where);
    ProcessCard::Segment& entry = card_.segments[segments_.size()];
    entry.bytes = bytes;
    segments_.push_back(static_cast<std::byte*>(memory));
    RINGRAD_CUDA_CHECK(cudaIpcGetMemHandle(&entry.handle, memory), where);
    return segments_.back();
  }

  const Device device_;
  const std::shared_ptr<std::byte> keeps_card_;
  ProcessCard& card_;
  mutable std::mutex mutex_;
  std::vector<std::byte*> segments_;
  BlockPool blocks_;
  std::vector<cudaEvent_t> events_ = std::vector<cudaEvent_t>(DeviceLinks::kEvents);
};

// Of groups that this rank has left and others may have not.
void retire(std::shared_ptr<Exports> exports) {
  static std::mutex mutex;
  static auto& retired =
      *new std::vector<std::shared_ptr<Exports>>;  // what is left, the process's end frees
  const std::lock_guard lock(mutex);
  if (exports) retired.push_back(std::move(exports));
  std::erase_if(retired, [](const auto& old) { return old->nobody_uses_them(); });
}

cudaUUID_t uuid_of(Device device, Where where) {
  const DeviceGuard exists(device, where);
  cudaDeviceProp properties;
  RINGRAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index), where);
  return properties.uuid;
}

// --- Links ---

class ProcessLinks final : public DeviceLinks {
 public:
  ProcessLinks(RankSession& session, Device device, Where where)
      : session_(session),
        rank_(session.rank()),
        device_(device),
        where_(where),
        exports_(std::make_shared<Exports>(
            device, session.memory()->allocate(sizeof(ProcessCard), where))) {
    retire(nullptr);
    ProcessCard& own = exports_->card();
    own.gpu = uuid_of(device, where);
    if (!asks_for_kernels(session)) return;
    mail_ = allocate(cuda::mailbox_bytes(session.options().kernel_bytes), where);
    prepare_mailbox(reinterpret_cast<cuda::Mailbox*>(mail_.get()), device, own_kernels_, where);
    own.mailbox = name(mail_.get());
    own.resident_blocks = own_kernels_.resident_blocks;
  }

  // Nobody takes its card away before all have said that they use it.
  void meet(Operation& operation) override {
    RankGroup& group = session_.group();
    const RankGroup::Inside inside(group, operation);
    session_.exchange(operation,
                      group.distance(rank_, reinterpret_cast<const std::byte*>(&exports_->card())));
    for (int r = 0; r < session_.world_size(); ++r) {
      auto* card = reinterpret_cast<ProcessCard*>(group.address(r, group.buffer_of(r)));
      peers_.push_back({.card = r == rank_ ? &exports_->card() : card});
      if (r != rank_) card->num_users.fetch_add(1, std::memory_order_relaxed);
    }
    session_.exchange(operation, 0);
  }

  // REQUIRES: what this rank has queued is done
  ~ProcessLinks() override {
    const DeviceGuard guard(device_, where_);
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      for (void* segment : peers_[r].segments)
        if (segment != nullptr) cudaIpcCloseMemHandle(segment);
      for (const cudaEvent_t event : peers_[r].events)
        if (event != nullptr) cudaEventDestroy(event);
      if (static_cast<int>(r) != rank_)
        peers_[r].card->num_users.fetch_sub(1, std::memory_order_release);
    }
    if (own_kernels_.abort_word != nullptr) cudaFreeHost(own_kernels_.abort_word);
    mail_.reset();
    // Ranks that work together leave together, as a rule.
    const auto begin = std::chrono::steady_clock::now();
    while (!exports_->nobody_uses_them() && session_.group().failed_rank() < 0 &&
           std::chrono::steady_clock::now() - begin < kLongestFarewell)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    retire(std::move(exports_));
  }

  bool share_gpu(int a, int b) const override {
    return std::memcmp(&peers_[a].card->gpu, &peers_[b].card->gpu, sizeof(cudaUUID_t)) == 0;
  }
  bool has_access_to(int) const override {
    return true;
  }  // or opening its memory would have failed
  bool all_have_access() const override { return true; }
  std::byte* address(int rank, std::uintptr_t name) override {
    const std::size_t segment = name >> kSegmentShift;
    const std::uintptr_t distance = name & ((std::uintptr_t{1} << kSegmentShift) - 1);
    return (rank == rank_ ? exports_->begin(segment) : open_segment(rank, segment)) + distance;
  }
  std::uintptr_t name(const std::byte* own) const override {
    const int segment = exports_->find(own);
    RINGRAD_ASSERT(segment >= 0);
    return (static_cast<std::uintptr_t>(segment) << kSegmentShift) +
           static_cast<std::uintptr_t>(own - exports_->begin(static_cast<std::size_t>(segment)));
  }
  bool is_visible(const std::byte* own) const override { return exports_->find(own) >= 0; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes, Where where) override {
    return {exports_->allocate(bytes, where),
            [exports = exports_](std::byte* p) { exports->release(p); }};
  }

  // The segments stay until nobody uses them, and nothing else comes to lie in them.
  void keep(std::shared_ptr<std::byte>) override {}

  KernelPeer kernel_peer(int rank) override {
    if (rank == rank_) return own_kernels_;
    const ProcessCard& card = *peers_[rank].card;
    if (card.resident_blocks == 0) return {};
    return {.mailbox = reinterpret_cast<cuda::Mailbox*>(address(rank, card.mailbox)),
            .abort_word = nullptr,
            .resident_blocks = card.resident_blocks};
  }

  // A simulated GPU works only while its process waits for it (sim/README.md), and others wait for its work.
  void after_queueing(const Stream& stream, Where where) override {
    if (is_cuda_simulated()) stream.synchronize(where);
  }

  cudaEvent_t event(int rank, std::size_t number, Where where) override {
    const DeviceGuard guard(device_, where);
    if (rank != rank_) {
      std::vector<cudaEvent_t>& events = peers_[rank].events;
      events.resize(kEvents, nullptr);
      if (events[number] == nullptr)
        RINGRAD_CUDA_CHECK(
            cudaIpcOpenEventHandle(&events[number], peers_[rank].card->events[number]), where);
      return events[number];
    }
    return exports_->event(number, where);
  }

 private:
  // Another rank, as far as it was needed.
  struct Peer {
    ProcessCard* card = nullptr;
    std::array<void*, kMaxSegments> segments{};
    std::vector<cudaEvent_t> events = {};
  };

  std::byte* open_segment(int rank, std::size_t number) {
    void*& segment = peers_[rank].segments[number];
    if (segment == nullptr) {
      const DeviceGuard guard(device_, where_);
      ProcessCard& card = *peers_[rank].card;
      const cudaError_t status = cudaIpcOpenMemHandle(&segment, card.segments[number].handle,
                                                      cudaIpcMemLazyEnablePeerAccess);
      if (status != cudaSuccess) segment = nullptr;
      RINGRAD_CUDA_CHECK(status, where_);
    }
    return static_cast<std::byte*>(segment);
  }

  RankSession& session_;
  const int rank_;
  const Device device_;
  const Where where_;
  std::shared_ptr<Exports> exports_;
  std::shared_ptr<std::byte> mail_;
  KernelPeer own_kernels_;
  std::vector<Peer> peers_;  // (world_size)
};

}  // namespace

std::unique_ptr<DeviceLinks> link_processes(RankSession& session, Device device, Where where) {
  return std::make_unique<ProcessLinks>(session, device, where);
}

}  // namespace ringrad
