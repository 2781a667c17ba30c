#include "parallel/comm/device_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "core/cuda_check.h"
#include "core/transfer.h"
#include "kernels/copy.h"
#include "parallel/comm/reduce_terms.h"
#include "parallel/comm/reduce_terms_cuda.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLongestSettling = std::chrono::seconds(1);
constexpr auto kBetweenLooks = std::chrono::milliseconds(1);

// What a GPU may still come to use.
void keep_for_ever(std::unique_ptr<DeviceLinks> links) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<DeviceLinks>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(links));
}

}  // namespace

DeviceRunner::DeviceRunner(RankSession& session, Device device, Where where)
    : session_(session),
      device_(device),
      links_(link_devices(session, device, where)),
      copies_(device, where),
      watch_(
          device, [this] { return is_waiting(); }, where) {}

// Others may still use this rank's memory, or it theirs.
DeviceRunner::~DeviceRunner() {
  if (drain()) return;
  watch_.abandon();
  keep_for_ever(std::move(links_));
}

void DeviceRunner::meet(Operation& operation) {
  watch_.claim();
  if (kernels_) return;
  try {
    links_->meet(operation);
    kernels_.emplace(session_, *links_, device_, watch_.note(), operation.where);
  } catch (const std::exception& error) {
    session_.group().fail(error.what());  // the others may have met: there is no second time
    throw;
  }
  has_met_.store(true, std::memory_order_release);
}

// --- What is queued ---

void DeviceRunner::queued(const Operation& operation, const Event& reached) {
  const Stream current = current_stream(device_);
  {
    const std::lock_guard lock(calls_mutex_);
    while (!calls_.empty() && calls_.front().done.is_done(operation.where)) calls_.pop_front();
    calls_.push_back({operation, reached, Event(current, /*timing=*/false, operation.where), {}});
  }
  links_->after_queueing(current, operation.where);
}

bool DeviceRunner::is_waiting() {
  const std::lock_guard lock(calls_mutex_);
  while (!calls_.empty() && calls_.front().done.is_done()) calls_.pop_front();
  if (calls_.empty()) return false;
  const auto now = Clock::now();
  if (now < next_look_) return true;
  next_look_ = now + kBetweenLooks;
  RankGroup& group = session_.group();
  QueuedCall& oldest = calls_.front();
  if (!oldest.since && oldest.reached.is_done()) oldest.since = now;
  if (oldest.since && now - *oldest.since - kLongestSettling >= session_.options().deadline)
    group.fail(concat(oldest.operation, ": every rank must arrive on its GPU within ",
                      group.deadline_s(), " s; got no end of it"));
  group.report_deaths();
  if (group.failed_rank() < 0) return true;
  abort();
  if (!broken_since_) broken_since_ = now;
  if (now - *broken_since_ >= kLongestSettling) group.check_whole(oldest.operation);
  return true;
}

bool DeviceRunner::drain() noexcept {
  try {
    while (is_waiting()) std::this_thread::yield();
    return !has_given_up_;
  } catch (const Error&) {
    return false;
  }
}

void DeviceRunner::leave_behind() noexcept {
  abort();
  drain();
  watch_.forget_note();
}

// --- Memory ---

std::shared_ptr<std::byte> DeviceRunner::allocate(std::size_t bytes, Where where) {
  return links_->allocate(bytes, where);
}

bool DeviceRunner::is_visible(const std::byte* p) const { return links_->is_visible(p); }

void DeviceRunner::copy(std::byte* to, const std::byte* from, std::size_t bytes, Where where) {
  copy_bytes(to, device_, from, device_, bytes, where);
}

// Sums made of all their terms at once are rounded once, whatever they travel in.
DType DeviceRunner::carrier(DType dtype, const PlanPrograms& programs) const {
  const bool travels_wide = programs.has_partial_sums || dtype == DType::bool_;
  return travels_wide ? carrier_dtype(dtype) : dtype;
}

void DeviceRunner::to_carrier(DType dtype, const std::byte* in, DType carrier, std::byte* out,
                              std::int64_t count, Where where) {
  if (size_bytes(carrier) == size_bytes(dtype))
    return copy(out, in, static_cast<std::size_t>(count) * size_bytes(dtype), where);
  const auto at = [&](const std::byte* p, DType type) {
    return from_memory(const_cast<std::byte*>(p), {count}, {.dtype = type, .device = device_},
                       nullptr, where);
  };
  kernels::copy_(at(out, carrier), at(in, dtype), where);
}

void DeviceRunner::from_carrier(DType carrier, const std::byte* in, DType dtype, std::byte* out,
                                std::int64_t count, Where where) {
  to_carrier(carrier, in, dtype, out, count, where);
}

// --- One run of a plan ---

class DeviceRunner::Run {
 public:
  Run(DeviceRunner& runner, const PlanPrograms& programs, Operation& operation,
      const PlanData& data)
      : session_(runner.session_),
        group_(runner.session_.group()),
        links_(*runner.links_),
        device_(runner.device_),
        programs_(programs),
        program_(programs.ranks[session_.rank()]),
        operation_(operation),
        where_(operation.where),
        data_(data),
        sums_(current_stream(device_)),
        copies_(runner.copies_),
        first_event_(runner.num_runs_ % 2 * (DeviceLinks::kEvents / 2)),
        seen_by_sums_(session_.world_size(), 0),
        seen_by_copies_(session_.world_size(), 0) {
    RINGRAD_CHECK(program_.publications.size() <= DeviceLinks::kEvents / 2, ValueError, where_,
                  operation_, ": a plan for GPUs must have at most ", DeviceLinks::kEvents / 2,
                  " messages per rank; got ", program_.publications.size());
  }

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

  // After a failure, when no rank queues anything any more: what was queued must have ended before memory is given
  // back. It does by itself, unless it depends on what a process had queued that has died: then false.
  bool settle() noexcept {
    const auto begin = Clock::now();
    for (const Stream& stream : {copies_, sums_})
      while (cudaStreamQuery(stream.handle()) == cudaErrorNotReady &&
             (session_.memory()->is_one_process() || Clock::now() - begin < kLongestSettling))
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

  // What `peer` has published in one publication, and all before it, comes before later work on `stream`.
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
    switch (session_.options().transfers) {
      case DeviceTransfers::copy_engines:
        return false;
      case DeviceTransfers::kernels:
        return links_.has_access_to(peer);
      case DeviceTransfers::automatic:
        break;
    }
    return links_.share_gpu(peer, rank());
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
    const std::size_t largest =
        bytes_of(0);  // chunks differ by one element, the first are the larger
    slots_.resize(2 * most);
    for (Slot& slot : slots_) slot.place = allocate_here(largest);
    // The memory is free in the order of `sums_`: others may have queued its last use since this run began.
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

bool DeviceRunner::try_all_reduce(Operation& operation, std::byte* data) {
  refuse_while_capturing("a collective", operation.where);
  const Event reached(current_stream(device_), /*timing=*/false, operation.where);
  if (!kernels_->try_run(operation, data)) return false;
  queued(operation, reached);
  return true;
}

void DeviceRunner::run(const PlanPrograms& programs, Operation operation, PlanData data) {
  refuse_while_capturing("a collective", operation.where);
  const PlanProgram& program = programs.ranks[session_.rank()];
  data.num_parts = programs.num_parts;
  std::shared_ptr<std::byte> beside;  // outlives the run: until then others may read it
  if (program.num_beside > 0 && data.beside == nullptr) {
    const std::int64_t count = data.range(program.num_beside - 1).end;
    beside = allocate(count * size_bytes(data.dtype), operation.where);
    data.beside = beside.get();
  }
  const DeviceGuard guard(device_, operation.where);
  const Event reached(current_stream(device_), /*timing=*/false, operation.where);
  const std::uint64_t entered = session_.reserve(programs.max_length);
  Run run(*this, programs, operation, data);
  ++num_runs_;
  try {
    const RankGroup::Inside inside(session_.group(), operation);
    run.queue_all(entered);
    queued(operation, reached);
  } catch (...) {
    if (!run.settle()) has_given_up_ = true;
    throw;
  }
}

}  // namespace ringrad
