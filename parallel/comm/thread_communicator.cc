#include "parallel/comm/thread_communicator.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <cstring>
#include <map>
#include <mutex>

#include "parallel/comm/collective_call.h"
#include "parallel/comm/message_channel.h"
#include "parallel/comm/plan_program.h"
#include "parallel/comm/reduce_terms.h"
#include "parallel/comm/thread_group.h"
#include "parallel/plan/direct_plan.h"

namespace ringrad {
namespace {

// A chunk should stay in a second-level cache (1 to 2 MiB) from one step to the next; smaller ones
// only add steps. With more than a few segments nothing more is gained.
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::int64_t kMaxSegments = 8;

// --- What the ranks of a group share ---

struct ProgramKey {
  Collective collective;
  int segments;
  int root;
  auto operator<=>(const ProgramKey&) const = default;
};

class ThreadGroupState {
 public:
  ThreadGroupState(int world_size, const ThreadGroupOptions& options)
      : group(world_size, options.deadline),
        options(options),
        channels_(static_cast<std::size_t>(world_size) * world_size) {}

  MessageChannel& channel(int from, int to) {
    return channels_[static_cast<std::size_t>(from) * group.world_size() + to];
  }

  // Compiled by the first rank to ask; the others wait for it. The result lives as long as the
  // group.
  const PlanPrograms& programs(const ProgramKey& key, Where where) {
    const std::lock_guard lock(programs_mutex_);
    const auto found = programs_.find(key);
    if (found != programs_.end()) return found->second;
    const CollectivePlan plan = make_plan(key);
    RINGRAD_CHECK(plan.collective == key.collective && plan.world_size == group.world_size(),
                  ValueError, where, "all_reduce: the plan must be an all_reduce of ",
                  group.world_size(), " ranks; got ", name(plan.collective), " of ",
                  plan.world_size);
    return programs_.emplace(key, compile(plan, where)).first->second;
  }

  ThreadGroup group;
  const ThreadGroupOptions options;

 private:
  CollectivePlan make_plan(const ProgramKey& key) const {
    const int n = group.world_size();
    switch (key.collective) {
      case Collective::all_reduce:
        return options.all_reduce(n, key.segments);
      case Collective::reduce_scatter:
        return ring_reduce_scatter(n);
      case Collective::all_gather:
        return ring_all_gather(n);
      case Collective::broadcast:
      case Collective::reduce:
      case Collective::all_to_all:
        break;
    }
    return direct_broadcast(n, key.root);
  }

  std::vector<MessageChannel> channels_;  // (world_size, world_size)
  std::mutex programs_mutex_;
  std::map<ProgramKey, PlanPrograms> programs_;
};

// --- One rank ---

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, std::shared_ptr<ThreadGroupState> state)
      : Communicator(rank, state->group.world_size()),
        state_(std::move(state)),
        group_(state_->group),
        num_messages_to_(world_size(), 0),
        num_messages_from_(world_size(), 0) {}

  ~ThreadCommunicator() override { group_.leave(rank()); }

  void abort(const std::string& reason) noexcept override { group_.fail(rank(), reason); }
  int failed_rank() const noexcept override { return group_.failed_rank(); }

 protected:
  void do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) override;
  void do_reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                         Where where) override;
  void do_all_gather(const Tensor& output, const Tensor& input, Where where) override;
  void do_broadcast(const Tensor& tensor, int root, Where where) override;
  void do_barrier(Where where) override;
  void do_send(const Tensor& tensor, int to, Where where) override;
  void do_recv(const Tensor& tensor, int from, Where where) override;

 private:
  // A buffer that a plan runs on, and what its elements are.
  struct Buffer {
    std::byte* data;
    DType dtype;

    std::byte* at(std::int64_t element) const { return data + element * size_bytes(dtype); }
  };

  Buffer buffer_of(int peer, const Operation& operation, Buffer own) const {
    return {peer == rank() ? own.data : group_.buffer_of(peer, operation.sequence), own.dtype};
  }

  int num_segments(std::int64_t bytes) const;
  const PlanPrograms& programs(const ProgramKey& key, Where where);
  Operation begin(const CollectiveCall& call, Where where);
  void run(const PlanPrograms& programs, Operation operation, Buffer buffer);
  void enter(Operation& operation, Buffer buffer, std::uint64_t entered, int leading_sends);
  void receive(const Instruction& instruction, Operation& operation, Buffer buffer,
               ElementRange range, std::uint64_t entered);

  std::shared_ptr<ThreadGroupState> state_;
  ThreadGroup& group_;
  std::uint64_t sequence_ = 0;  // of the latest collective that was entered
  std::uint64_t base_ = 0;      // progress before the next one, equal on all ranks
  std::map<ProgramKey, const PlanPrograms*> known_programs_;
  std::vector<const std::byte*> terms_;  // of the sum at work, and where it goes
  std::vector<std::byte*> results_;
  std::vector<std::uint64_t> num_messages_to_, num_messages_from_;  // (world_size)
};

// --- Running a plan ---

Operation ThreadCommunicator::begin(const CollectiveCall& call, Where where) {
  Operation operation{call, rank(), sequence_ + 1, where, {}};
  group_.check_whole(operation);
  return operation;
}

void ThreadCommunicator::run(const PlanPrograms& programs, Operation operation, Buffer buffer) {
  const PlanProgram& program = programs.ranks[rank()];
  const std::uint64_t entered = base_ + 1;
  base_ = entered + programs.max_length;
  const ThreadGroup::Inside inside(group_, operation);
  enter(operation, buffer, entered, program.num_leading_sends);

  const std::size_t length = program.instructions.size();
  for (std::size_t i = program.num_leading_sends; i < length; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.op == StepOp::send) {
      group_.publish(rank(), entered + i + 1);
      continue;
    }
    const ElementRange range =
        chunk_range(operation.call.count, programs.num_chunks, instruction.chunk);
    if (range.size() > 0) receive(instruction, operation, buffer, range, entered);
  }
  group_.publish(rank(), entered + length);
  for (const Milestone& last_read : program.last_reads)
    group_.wait(operation, last_read.rank, entered + last_read.progress, entered);
}

// All ranks must have made the same call before anybody's memory is touched. What a rank sends
// before it receives anything is its input, so it is published together with the entry.
void ThreadCommunicator::enter(Operation& operation, Buffer buffer, std::uint64_t entered,
                               int leading_sends) {
  const std::uint64_t sequence = sequence_ = operation.sequence;
  group_.enter(rank(), sequence, operation.call, buffer.data, entered + leading_sends);
  bool equal = true;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer == rank()) continue;
    group_.wait(operation, peer, entered, entered);
    equal = equal && group_.call_of(peer, sequence) == operation.call;
  }
  if (equal) return;
  std::vector<CollectiveCall> calls;
  for (int r = 0; r < world_size(); ++r) calls.push_back(group_.call_of(r, sequence));
  group_.fail_and_throw(
      operation, concat(operation, ": all ranks must make the same call; got ", list_calls(calls)));
}

void ThreadCommunicator::receive(const Instruction& instruction, Operation& operation,
                                 Buffer buffer, ElementRange range, std::uint64_t entered) {
  terms_.clear();
  for (const Milestone& term : instruction.terms) {
    if (term.rank != rank()) group_.wait(operation, term.rank, entered + term.progress, entered);
    terms_.push_back(buffer_of(term.rank, operation, buffer).at(range.begin));
  }
  if (instruction.delivered) return;
  std::byte* own = buffer.at(range.begin);
  if (instruction.op == StepOp::recv) {
    std::memcpy(own, terms_[0], range.size() * size_bytes(buffer.dtype));
    return;
  }
  results_.assign(1, own);
  for (int receiver : instruction.deliver_to)
    results_.push_back(buffer_of(receiver, operation, buffer).at(range.begin));
  const int divisor = instruction.completes ? world_size() : 1;
  reduce_terms(buffer.dtype, operation.call.reduce, terms_, results_, range.size(), divisor);
}

// --- Collectives ---

int ThreadCommunicator::num_segments(std::int64_t bytes) const {
  if (state_->options.segments > 0) return state_->options.segments;
  const std::int64_t wanted = bytes / (kChunkBytes * world_size());
  // Powers of two, so that few different plans are made.
  const auto power = std::bit_floor(static_cast<std::uint64_t>(wanted));
  return static_cast<int>(std::clamp<std::int64_t>(power, 1, kMaxSegments));
}

const PlanPrograms& ThreadCommunicator::programs(const ProgramKey& key, Where where) {
  const PlanPrograms*& known = known_programs_[key];
  if (known == nullptr) known = &state_->programs(key, where);
  return *known;
}

void ThreadCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) {
  check_cpu("all_reduce", tensor.device(), where);
  const std::int64_t count = tensor.numel();
  const DType carrier = carrier_dtype(tensor.dtype());
  Operation operation = begin({CollectiveOp::all_reduce, tensor.dtype(), op, 0, count}, where);
  const int segments = num_segments(count * static_cast<std::int64_t>(size_bytes(carrier)));
  const PlanPrograms& plan = programs({Collective::all_reduce, segments, 0}, where);
  if (size_bytes(carrier) == size_bytes(tensor.dtype()))
    return run(plan, operation, {tensor.raw_data(), carrier});

  const Tensor wide = empty({count}, {.dtype = carrier, .device = tensor.device()}, where);
  to_carrier(tensor.dtype(), tensor.raw_data(), wide.raw_data(), count);
  run(plan, operation, {wide.raw_data(), carrier});
  from_carrier(tensor.dtype(), wide.raw_data(), tensor.raw_data(), count);
}

void ThreadCommunicator::do_reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                           Where where) {
  check_cpu("reduce_scatter", input.device(), where);
  check_cpu("reduce_scatter", output.device(), where);
  const std::int64_t count = input.numel();
  const DType carrier = carrier_dtype(input.dtype());
  Operation operation = begin({CollectiveOp::reduce_scatter, input.dtype(), op, 0, count}, where);
  // Partial sums need a place, and the input is the caller's: the plan runs on a copy.
  const Tensor work = empty({count}, {.dtype = carrier, .device = input.device()}, where);
  to_carrier(input.dtype(), input.raw_data(), work.raw_data(), count);
  const Buffer buffer{work.raw_data(), carrier};
  run(programs({Collective::reduce_scatter, 1, 0}, where), operation, buffer);
  from_carrier(input.dtype(), buffer.at(rank() * output.numel()), output.raw_data(),
               output.numel());
}

void ThreadCommunicator::do_all_gather(const Tensor& output, const Tensor& input, Where where) {
  check_cpu("all_gather", input.device(), where);
  check_cpu("all_gather", output.device(), where);
  const DType dtype = output.dtype();
  Operation operation =
      begin({CollectiveOp::all_gather, dtype, ReduceOp::sum, 0, output.numel()}, where);
  const Buffer buffer{output.raw_data(), dtype};
  std::byte* own_part = buffer.at(rank() * input.numel());
  if (own_part != input.raw_data() && input.numel() > 0)
    std::memcpy(own_part, input.raw_data(), input.numel() * size_bytes(dtype));
  run(programs({Collective::all_gather, 1, 0}, where), operation, buffer);
}

void ThreadCommunicator::do_broadcast(const Tensor& tensor, int root, Where where) {
  check_cpu("broadcast", tensor.device(), where);
  Operation operation =
      begin({CollectiveOp::broadcast, tensor.dtype(), ReduceOp::sum, root, tensor.numel()}, where);
  run(programs({Collective::broadcast, 1, root}, where), operation,
      {tensor.raw_data(), tensor.dtype()});
}

// Entering is all there is to a barrier.
void ThreadCommunicator::do_barrier(Where where) {
  Operation operation = begin({}, where);
  enter(operation, {nullptr, DType::uint8}, ++base_, 0);
}

// --- Messages ---

void ThreadCommunicator::do_send(const Tensor& tensor, int to, Where where) {
  check_cpu("send", tensor.device(), where);
  const std::uint64_t sequence = num_messages_to_[to] + 1;
  Operation operation{{CollectiveOp::send, tensor.dtype(), ReduceOp::sum, to, tensor.numel()},
                      rank(),
                      sequence,
                      where,
                      {}};
  group_.check_whole(operation);
  MessageChannel& channel = state_->channel(rank(), to);
  const bool in_time = group_.wait_until(operation, to, [&] {
    return sequence - channel.taken.load(std::memory_order_acquire) <= MessageChannel::kSlots;
  });
  if (!in_time)
    group_.fail_and_throw(
        operation, concat(operation, ": rank ", to, " must receive within ", group_.deadline_s(),
                          " s; got ", MessageChannel::kSlots, " messages that it has not taken"));
  MessageChannel::Slot& slot = channel.slot(sequence);
  slot.dtype = tensor.dtype();
  slot.count = tensor.numel();
  slot.bytes.assign(tensor.raw_data(),
                    tensor.raw_data() + tensor.numel() * size_bytes(tensor.dtype()));
  channel.sent.store(sequence, std::memory_order_release);
  num_messages_to_[to] = sequence;
}

void ThreadCommunicator::do_recv(const Tensor& tensor, int from, Where where) {
  check_cpu("recv", tensor.device(), where);
  const std::uint64_t sequence = num_messages_from_[from] + 1;
  Operation operation{{CollectiveOp::recv, tensor.dtype(), ReduceOp::sum, from, tensor.numel()},
                      rank(),
                      sequence,
                      where,
                      {}};
  group_.check_whole(operation);
  MessageChannel& channel = state_->channel(from, rank());
  const bool in_time = group_.wait_until(
      operation, from, [&] { return channel.sent.load(std::memory_order_acquire) >= sequence; });
  if (!in_time)
    group_.fail_and_throw(operation, concat(operation, ": rank ", from, " must send within ",
                                            group_.deadline_s(), " s; got no message"));
  const MessageChannel::Slot& slot = channel.slot(sequence);
  if (slot.dtype != tensor.dtype() || slot.count != tensor.numel())
    group_.fail_and_throw(
        operation, concat(operation, ": the message must be ", slot.dtype, ", ", slot.count,
                          " elements as sent by rank ", from, "; got a tensor of ", tensor.dtype(),
                          ", ", tensor.numel(), " elements"));
  if (!slot.bytes.empty()) std::memcpy(tensor.raw_data(), slot.bytes.data(), slot.bytes.size());
  channel.taken.store(sequence, std::memory_order_release);
  num_messages_from_[from] = sequence;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_group(int world_size,
                                                             const ThreadGroupOptions& options,
                                                             Where where) {
  RINGRAD_CHECK(world_size >= 1 && world_size <= kMaxThreadRanks, ValueError, where,
                "make_thread_group: world_size must be in [1, ", kMaxThreadRanks, "]; got ",
                world_size);
  RINGRAD_CHECK(options.deadline > options.deadline.zero(), ValueError, where,
                "make_thread_group: the deadline must be positive; got ", options.deadline.count(),
                " ns");
  const int most_segments = kMaxPlanChunks / world_size;
  RINGRAD_CHECK(options.segments >= 0 && options.segments <= most_segments, ValueError, where,
                "make_thread_group: segments must be in [0, ", most_segments, "] for ", world_size,
                " ranks; got ", options.segments);
  RINGRAD_CHECK(options.all_reduce != nullptr, ValueError, where,
                "make_thread_group: all_reduce must be a planner; got none");
  const auto state = std::make_shared<ThreadGroupState>(world_size, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.push_back(std::make_unique<ThreadCommunicator>(rank, state));
  return ranks;
}

}  // namespace ringrad
