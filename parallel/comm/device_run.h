// DeviceRun: one run of a plan by one rank, as work on its GPU's streams (device_runner.h).

#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/cuda_check.h"
#include "core/stream.h"
#include "parallel/comm/device_links.h"
#include "parallel/comm/plan_runner.h"
#include "parallel/comm/rank_session.h"
#include "parallel/comm/reduce_terms_cuda.h"

namespace ringrad {

/// How long a rank waits after a failure for what it has queued.
inline constexpr std::chrono::seconds kLongestSettling{1};

class DeviceRun {
 public:
  /// The run of this number in its group: events of the one before it may still be waited for.
  DeviceRun(RankSession& session, DeviceLinks& links, Device device, const Stream& copies,
            std::uint64_t number, const PlanPrograms& programs, Operation& operation,
            const PlanData& data)
      : session_(session),
        group_(session.group()),
        links_(links),
        device_(device),
        programs_(programs),
        program_(programs.ranks[session_.rank()]),
        operation_(operation),
        where_(operation.where),
        data_(data),
        sums_(current_stream(device_)),
        copies_(copies),
        first_event_(number % 2 * (DeviceLinks::kCollectiveEvents / 2)),
        seen_by_sums_(session_.world_size(), 0),
        seen_by_copies_(session_.world_size(), 0) {
    RINGRAD_CHECK(program_.publications.size() <= DeviceLinks::kCollectiveEvents / 2, ValueError,
                  where_, operation_, ": a plan for GPUs must have at most ",
                  DeviceLinks::kCollectiveEvents / 2, " messages per rank; got ",
                  program_.publications.size());
  }

  /// Queues this rank's part. Returns when every other rank has queued the work that it depends on.
  /// Throws: CollectiveError
  void queue_all(std::uint64_t entered) {
    entered_ = entered;
    const std::size_t leading = program_.num_leading;
    for (std::size_t i = 0; i < leading; ++i) stage(program_.instructions[i]);
    record(0);
    Event(sums_, /*timing=*/false, where_).block(copies_, where_);
    const PlaceNames names{links_.name(data_.buffer),
                           data_.beside == nullptr ? 0 : links_.name(data_.beside)};
    session_.enter(operation_, names, entered, program_.num_leading);
    std::size_t next = 1;
    for (std::size_t i = leading; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      stage(instruction);
      if (is_receive(instruction.op)) receive(instruction);
      if (next < program_.publications.size() && i + 1 == program_.publications[next]) {
        record(next);
        group_.publish(entered + program_.publications[next++]);
      }
    }
    for (const Milestone& last_read : program_.last_reads) wait_for(last_read, sums_);
    group_.check_whole(operation_);
  }

  /// After a failure, when no rank queues work any more: waits for the queued work, which must end
  /// before memory is freed. Returns false if it does not, because it depends on the work of a
  /// process that has died.
  bool settle() noexcept {
    const auto begin = std::chrono::steady_clock::now();
    for (const Stream& stream : {copies_, sums_})
      while (cudaStreamQuery(stream.handle()) == cudaErrorNotReady &&
             (session_.memory()->is_one_process() ||
              std::chrono::steady_clock::now() - begin < kLongestSettling))
        std::this_thread::yield();
    links_.settle();
    return cudaStreamQuery(copies_.handle()) != cudaErrorNotReady &&
           cudaStreamQuery(sums_.handle()) != cudaErrorNotReady;
  }

 private:
  int rank() const { return session_.rank(); }

  std::byte* address(int peer, Place place) {
    const bool is_buffer = place.area == Area::buffer;
    std::byte* begin = peer == rank() ? (is_buffer ? data_.buffer : data_.beside)
                                      : links_.address(peer, is_buffer ? group_.buffer_of(peer)
                                                                       : group_.beside_of(peer));
    return begin + data_.range(place.part).begin * size_bytes(data_.dtype);
  }

  std::size_t bytes_of(int part) const {
    return static_cast<std::size_t>(data_.range(part).size()) * size_bytes(data_.dtype);
  }

  // --- Order ---

  void record(std::size_t publication) {
    const cudaEvent_t event = links_.event(rank(), first_event_ + publication, where_);
    RINGRAD_CUDA_CHECK(cudaEventRecord(event, sums_.handle()), where_);
  }

  // Orders everything that `peer` has published up to this publication before later work on
  // `stream`.
  void wait_for_publication(int peer, std::size_t publication, const Stream& stream) {
    std::size_t& seen = (&stream == &copies_ ? seen_by_copies_ : seen_by_sums_)[peer];
    if (seen > publication) return;
    const cudaEvent_t event = links_.event(peer, first_event_ + publication, where_);
    RINGRAD_CUDA_CHECK(cudaStreamWaitEvent(stream.handle(), event, 0), where_);
    seen = publication + 1;
  }

  void wait_for(const Milestone& milestone, const Stream& stream) {
    group_.wait(operation_, milestone.rank, entered_ + milestone.progress, entered_);
    const auto& all = programs_.ranks[milestone.rank].publications;
    const auto first = std::lower_bound(all.begin(), all.end(), milestone.progress);
    wait_for_publication(milestone.rank, static_cast<std::size_t>(first - all.begin()), stream);
  }

  // --- Instructions ---

  // Addresses tell which GPUs they belong to.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes, const Stream& stream) {
    RINGRAD_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.handle()),
                       where_);
  }

  void stage(const Instruction& instruction) {
    const std::size_t bytes = bytes_of(instruction.place.part);
    if (instruction.op != StepOp::stage || bytes == 0) return;
    copy(address(rank(), instruction.copy), address(rank(), instruction.place), bytes, sums_);
  }

  void receive(const Instruction& instruction) {
    group_.check_whole(operation_);  // a rank that was late does not go on
    const std::size_t bytes = bytes_of(instruction.place.part);
    if (instruction.op == StepOp::recv || bytes == 0) {
      for (const auto& [ready, place] : instruction.terms)
        if (ready.rank != rank()) wait_for(ready, sums_);
      if (instruction.delivered || bytes == 0) return;
      const auto& [ready, place] = instruction.terms[0];
      return copy(address(rank(), instruction.place), address(ready.rank, place), bytes, sums_);
    }
    std::vector<const std::byte*> terms;
    std::vector<Slot*> slots;
    for (const auto& [ready, place] : instruction.terms) {
      const std::byte* term = address(ready.rank, place);
      if (ready.rank == rank()) {
        terms.push_back(term);
      } else if (reads_directly(ready.rank)) {
        wait_for(ready, sums_);
        terms.push_back(term);
      } else {
        slots.push_back(&fetch(term, ready, bytes));
        terms.push_back(slots.back()->place.get());
      }
    }
    if (!slots.empty()) Event(copies_, /*timing=*/false, where_).block(sums_, where_);
    add(instruction, terms, bytes);
    for (Slot* slot : slots) slot->free.emplace(sums_, /*timing=*/false, where_);
  }

  void add(const Instruction& instruction, const std::vector<const std::byte*>& terms,
           std::size_t bytes) {
    std::byte* own = address(rank(), instruction.place);
    std::vector<std::byte*> results{own};
    for (const auto& [receiver, place] : instruction.deliver_to) {
      // It may not have come to the call on its stream; that its host has is not enough.
      wait_for_publication(receiver, 0, sums_);
      if (reads_directly(receiver)) results.push_back(address(receiver, place));
    }
    const int divisor = instruction.completes ? session_.world_size() : 1;
    cuda::reduce_terms(device_, data_.dtype, operation_.call.reduce, terms, results,
                       data_.range(instruction.place.part).size(), divisor, where_);
    for (const auto& [receiver, place] : instruction.deliver_to)
      if (!reads_directly(receiver)) copy(address(receiver, place), own, bytes, sums_);
  }

  // --- Slots ---

  struct Slot {
    std::shared_ptr<std::byte> place;
    std::optional<Event> free;  // when what is in it has been added
  };

  bool reads_directly(int peer) const {
    const DeviceTransfers transfers = session_.options().transfers;
    if (transfers == DeviceTransfers::kernels) return links_.has_access_to(peer);
    return transfers == DeviceTransfers::automatic && links_.share_gpu(peer, rank());
  }

  // Copies a term of a sum here, ahead of the sums.
  Slot& fetch(const std::byte* term, const Milestone& ready, std::size_t bytes) {
    if (slots_.empty()) make_slots();
    Slot& slot = slots_[next_slot_++ % slots_.size()];
    if (slot.free) slot.free->block(copies_, where_);
    wait_for(ready, copies_);
    copy(slot.place.get(), term, bytes, copies_);
    return slot;
  }

  // Twice as many as one sum needs, so that the next one's terms come while it is computed.
  void make_slots() {
    std::size_t most = 1;
    for (const Instruction& instruction : program_.instructions)
      if (instruction.op == StepOp::recv_reduce) most = std::max(most, instruction.terms.size());
    const std::size_t largest = bytes_of(0);  // no other chunk is larger
    slots_.resize(2 * most);
    for (Slot& slot : slots_) slot.place = allocate_here(largest);
    // The memory is free in the order of `sums_`: other ranks may have queued its last use since
    // this run began.
    Event(sums_, /*timing=*/false, where_).block(copies_, where_);
  }

  // Not within reach of others, and it need not be.
  std::shared_ptr<std::byte> allocate_here(std::size_t bytes) const {
    const Tensor memory = empty({static_cast<std::int64_t>(bytes)},
                                {.dtype = DType::uint8, .device = device_}, where_);
    return {memory.raw_data(), [memory](std::byte*) {}};
  }

  RankSession& session_;
  RankGroup& group_;
  DeviceLinks& links_;
  const Device device_;
  const PlanPrograms& programs_;
  const PlanProgram& program_;
  Operation& operation_;
  const Where where_;
  const PlanData& data_;
  const Stream sums_, copies_;
  const std::size_t first_event_;
  std::uint64_t entered_ = 0;
  std::vector<std::size_t> seen_by_sums_, seen_by_copies_;  // (world_size) publications
  std::vector<Slot> slots_;
  std::size_t next_slot_ = 0;
};

}  // namespace ringrad
