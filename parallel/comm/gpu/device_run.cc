#include "ringrad/parallel/comm/gpu/device_run.h"

#include <algorithm>
#include <thread>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/tensor.h"
#include "ringrad/parallel/comm/blocks/reduce_terms_cuda.h"

namespace ringrad {

DeviceRun::DeviceRun(RankSession& session, PlanRunner& runner, DeviceLinks& links, Device device,
                     const Stream& copies, std::uint64_t number, const PlanPrograms& programs,
                     Operation& operation, const PlanData& data)
    : PlanRun(session, runner, programs, operation, data),
      links_(links),
      device_(device),
      where_(operation.where),
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

bool DeviceRun::settle() noexcept {
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

// --- Order ---

void DeviceRun::before_publication(std::size_t n) {
  const cudaEvent_t event = links_.event(rank(), first_event_ + n, where_);
  RINGRAD_CUDA_CHECK(cudaEventRecord(event, sums_.handle()), where_);
  // What was on the caller's stream before the run comes before the copies.
  if (n == 0) Event(sums_, /*timing=*/false, where_).block(copies_, where_);
}

// Orders everything that `peer` has published up to this publication before later work on `stream`.
void DeviceRun::wait_for_publication(int peer, std::size_t publication, const Stream& stream) {
  std::size_t& seen = (&stream == &copies_ ? seen_by_copies_ : seen_by_sums_)[peer];
  if (seen > publication) return;
  const cudaEvent_t event = links_.event(peer, first_event_ + publication, where_);
  RINGRAD_CUDA_CHECK(cudaStreamWaitEvent(stream.handle(), event, 0), where_);
  seen = publication + 1;
}

void DeviceRun::wait_on(const Stream& stream, const Milestone& milestone) {
  group_.wait(operation_, milestone.rank, entered_ + milestone.progress, entered_);
  const auto& all = programs_.ranks[milestone.rank].publications;
  const auto first = std::lower_bound(all.begin(), all.end(), milestone.progress);
  wait_for_publication(milestone.rank, static_cast<std::size_t>(first - all.begin()), stream);
}

// --- Instructions ---

// Addresses tell which GPUs they belong to.
void DeviceRun::copy(std::byte* to, const std::byte* from, std::size_t bytes,
                     const Stream& stream) {
  RINGRAD_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.handle()), where_);
}

void DeviceRun::stage(const Instruction& instruction) {
  const std::size_t bytes = bytes_of(instruction.place.part);
  if (bytes > 0) copy(at(rank(), instruction.copy), at(rank(), instruction.place), bytes, sums_);
}

void DeviceRun::receive(const Instruction& instruction) {
  const std::size_t bytes = bytes_of(instruction.place.part);
  if (instruction.op == StepOp::recv || bytes == 0) {
    for (const auto& [ready, place] : instruction.terms)
      if (ready.rank != rank()) wait_for(ready);
    if (instruction.delivered || bytes == 0) return;
    const auto& [ready, place] = instruction.terms[0];
    return copy(at(rank(), instruction.place), at(ready.rank, place), bytes, sums_);
  }
  std::vector<const std::byte*> terms;
  std::vector<Slot*> slots;
  for (const auto& [ready, place] : instruction.terms) {
    const std::byte* term = at(ready.rank, place);
    if (ready.rank == rank()) {
      terms.push_back(term);
    } else if (reads_directly(ready.rank)) {
      wait_for(ready);
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

void DeviceRun::add(const Instruction& instruction, const std::vector<const std::byte*>& terms,
                    std::size_t bytes) {
  std::byte* own = at(rank(), instruction.place);
  std::vector<std::byte*> results{own};
  for (const auto& [receiver, place] : instruction.deliver_to) {
    // It may not have come to the call on its stream; that its host has is not enough.
    wait_for_publication(receiver, 0, sums_);
    if (reads_directly(receiver)) results.push_back(at(receiver, place));
  }
  const int divisor = instruction.completes ? session_.world_size() : 1;
  cuda::reduce_terms(device_, data_.dtype, operation_.call.reduce, terms, results,
                     data_.range(instruction.place.part).size(), divisor, where_);
  for (const auto& [receiver, place] : instruction.deliver_to)
    if (!reads_directly(receiver)) copy(at(receiver, place), own, bytes, sums_);
}

// --- Slots ---

bool DeviceRun::reads_directly(int peer) const {
  const DeviceTransfers transfers = session_.options().transfers;
  if (transfers == DeviceTransfers::kernels) return links_.has_access_to(peer);
  return transfers == DeviceTransfers::automatic && links_.share_gpu(peer, rank());
}

// Copies a term of a sum here, ahead of the sums.
DeviceRun::Slot& DeviceRun::fetch(const std::byte* term, const Milestone& ready,
                                  std::size_t bytes) {
  if (slots_.empty()) make_slots();
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  if (slot.free) slot.free->block(copies_, where_);
  wait_on(copies_, ready);
  copy(slot.place.get(), term, bytes, copies_);
  return slot;
}

// Twice as many as one sum needs, so that the next one's terms come while it is computed.
void DeviceRun::make_slots() {
  std::size_t most = 1;
  for (const Instruction& instruction : program_.instructions)
    if (instruction.op == StepOp::recv_reduce) most = std::max(most, instruction.terms.size());
  const auto largest = static_cast<std::int64_t>(bytes_of(0));  // no other chunk is larger
  slots_.resize(2 * most);
  for (Slot& slot : slots_) {
    // Other ranks cannot reach this memory, and need not.
    const Tensor memory = empty({largest}, {.dtype = DType::uint8, .device = device_}, where_);
    slot.place = {memory.raw_data(), [memory](std::byte*) {}};
  }
  // The memory is free in the order of `sums_`: other ranks may have queued its last use since
  // this run began.
  Event(sums_, /*timing=*/false, where_).block(copies_, where_);
}

}  // namespace ringrad
