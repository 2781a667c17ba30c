#include "parallel/comm/thread_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "parallel/comm/collective_call.h"
#include "parallel/comm/message_channel.h"
#include "parallel/comm/program_cache.h"
#include "parallel/comm/reduce_terms.h"
#include "parallel/comm/thread_group.h"

namespace ringrad {
namespace {

// A chunk should stay in a second-level cache (1 to 2 MiB) from one step to the next; smaller ones
// only add steps. With more than a few segments nothing more is gained.
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::int64_t kMaxSegments = 8;

void copy_elements(std::byte* to, const std::byte* from, std::int64_t count, DType dtype) {
  if (count > 0) std::memcpy(to, from, count * size_bytes(dtype));
}

// --- What the ranks of a group share ---

std::map<Collective, Planner> planners_of(const ThreadGroupOptions& options) {
  return {{Collective::all_reduce, options.all_reduce},
          {Collective::reduce_scatter, options.reduce_scatter},
          {Collective::all_gather, options.all_gather},
          {Collective::broadcast, options.broadcast},
          {Collective::reduce, options.reduce},
          {Collective::all_to_all, options.all_to_all}};
}

struct ThreadGroupState {
  ThreadGroupState(int world_size, const ThreadGroupOptions& options)
      : group(world_size, options.deadline),
        segments(options.segments),
        programs(world_size, planners_of(options)),
        channels(static_cast<std::size_t>(world_size) * world_size) {}

  MessageChannel& channel(int from, int to) {
    return channels[static_cast<std::size_t>(from) * group.world_size() + to];
  }

  ThreadGroup group;
  const int segments;
  ProgramCache programs;
  std::vector<MessageChannel> channels;  // (world_size, world_size)
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
  void do_reduce(const Tensor& tensor, int root, ReduceOp op, Where where) override;
  void do_all_to_all(const Tensor& output, const Tensor& input, Where where) override;
  void do_barrier(Where where) override;
  void do_send(const Tensor& tensor, int to, Where where) override;
  void do_recv(const Tensor& tensor, int from, Where where) override;

 private:
  // What a plan runs on: the memory of this rank, and how a buffer is cut.
  struct Data {
    RankMemory memory;
    DType dtype;
    std::int64_t count;
    int num_parts = 1;

    // In an all_to_all `count` is a multiple of num_parts, so parts beyond the buffer's end have the
    // size of the others.
    ElementRange range(int part) const { return chunk_range(count, num_parts, part); }
  };

  // Where an element of a rank's memory lies.
  std::byte* address(int peer, Area area, std::int64_t element, const Operation& operation,
                     const Data& own) const {
    const bool is_buffer = area == Area::buffer;
    std::byte* begin = peer == rank() ? (is_buffer ? own.memory.buffer : own.memory.beside)
                       : is_buffer    ? group_.buffer_of(peer, operation.sequence)
                                      : group_.beside_of(peer, operation.sequence);
    return begin + element * size_bytes(own.dtype);
  }

  int num_segments(std::int64_t count, DType dtype) const;
  const PlanPrograms& programs(const ProgramKey& key, Where where);
  Operation begin(const CollectiveCall& call, std::uint64_t sequence, Where where);
  Operation begin(const CollectiveCall& call, Where where) {
    return begin(call, sequence_ + 1, where);
  }
  void run(const PlanPrograms& programs, Operation operation, Data data);
  void enter(Operation& operation, const RankMemory& memory, std::uint64_t entered, int leading);
  void receive(const Instruction& instruction, Operation& operation, const Data& data,
               std::uint64_t entered);
  void reduce_in_place(Collective collective, const CollectiveCall& call, const Tensor& tensor,
                       bool is_result, Where where);

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

Operation ThreadCommunicator::begin(const CollectiveCall& call, std::uint64_t sequence,
                                    Where where) {
  Operation operation{call, rank(), sequence, where, {}};
  group_.check_whole(operation);
  return operation;
}

void ThreadCommunicator::run(const PlanPrograms& programs, Operation operation, Data data) {
  const PlanProgram& program = programs.ranks[rank()];
  data.num_parts = programs.num_parts;
  Tensor beside;  // outlives `inside`: until then others may read it
  if (program.num_beside > 0 && data.memory.beside == nullptr) {
    beside =
        empty({data.range(program.num_beside - 1).end}, {.dtype = data.dtype}, operation.where);
    data.memory.beside = beside.raw_data();
  }
  const std::uint64_t entered = base_ + 1;
  base_ = entered + programs.max_length;
  const ThreadGroup::Inside inside(group_, operation);

  const auto stage = [&](const Instruction& step) {
    if (step.op != StepOp::stage) return;
    const ElementRange from = data.range(step.place.part), to = data.range(step.copy.part);
    copy_elements(address(rank(), step.copy.area, to.begin, operation, data),
                  address(rank(), step.place.area, from.begin, operation, data), from.size(),
                  data.dtype);
  };
  const std::size_t length = program.instructions.size();
  const std::size_t leading = program.num_leading;
  for (std::size_t i = 0; i < leading; ++i) stage(program.instructions[i]);
  enter(operation, data.memory, entered, program.num_leading);
  for (std::size_t i = leading; i < length; ++i) {
    const Instruction& instruction = program.instructions[i];
    if (is_send(instruction.op)) {
      // Sends in a row are published together.
      if (i + 1 == length || !is_send(program.instructions[i + 1].op))
        group_.publish(rank(), entered + i + 1);
    } else if (instruction.op == StepOp::stage) {
      stage(instruction);
    } else {
      receive(instruction, operation, data, entered);
    }
  }
  group_.publish(rank(), entered + length);
  for (const Milestone& last_read : program.last_reads)
    group_.wait(operation, last_read.rank, entered + last_read.progress, entered);
}

// All ranks must have made the same call before anybody's memory is touched. What a rank sends
// before it receives anything is its input, so it is published together with the entry.
void ThreadCommunicator::enter(Operation& operation, const RankMemory& memory,
                               std::uint64_t entered, int leading) {
  const std::uint64_t sequence = sequence_ = operation.sequence;
  group_.enter(rank(), sequence, operation.call, memory, entered + leading);
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
                                 const Data& data, std::uint64_t entered) {
  const ElementRange range = data.range(instruction.place.part);
  const auto at = [&](int peer, Place place) {
    // Terms of a sum are parts alike; dividing once is enough.
    const bool is_alike = place.part == instruction.place.part;
    const std::int64_t begin = is_alike ? range.begin : data.range(place.part).begin;
    return address(peer, place.area, begin, operation, data);
  };
  terms_.clear();
  for (const auto& [ready, place] : instruction.terms) {
    if (ready.rank != rank()) group_.wait(operation, ready.rank, entered + ready.progress, entered);
    terms_.push_back(at(ready.rank, place));
  }
  // A message without elements was waited for too: it may bring word that a loan was read.
  if (instruction.delivered || range.size() == 0) return;
  std::byte* own = at(rank(), instruction.place);
  if (instruction.op == StepOp::recv)
    return copy_elements(own, terms_[0], range.size(), data.dtype);
  results_.assign(1, own);
  for (const auto& [receiver, place] : instruction.deliver_to)
    results_.push_back(at(receiver, place));
  const int divisor = instruction.completes ? world_size() : 1;
  reduce_terms(data.dtype, operation.call.reduce, terms_, results_, range.size(), divisor);
}

// --- Collectives ---

int ThreadCommunicator::num_segments(std::int64_t count, DType dtype) const {
  if (state_->segments > 0) return state_->segments;
  const std::int64_t bytes = count * static_cast<std::int64_t>(size_bytes(dtype));
  const std::int64_t wanted = bytes / (kChunkBytes * world_size());
  // Powers of two, so that few different plans are made.
  const auto power = std::bit_floor(static_cast<std::uint64_t>(wanted));
  return static_cast<int>(std::clamp<std::int64_t>(power, 1, kMaxSegments));
}

const PlanPrograms& ThreadCommunicator::programs(const ProgramKey& key, Where where) {
  const PlanPrograms*& known = known_programs_[key];
  if (known == nullptr) known = &state_->programs.get(key, where);
  return *known;
}

void ThreadCommunicator::reduce_in_place(Collective collective, const CollectiveCall& call,
                                         const Tensor& tensor, bool is_result, Where where) {
  const DType carrier = carrier_dtype(call.dtype);
  Operation operation = begin(call, where);
  const PlanPrograms& plan =
      programs({collective, num_segments(call.count, carrier), call.peer}, where);
  if (size_bytes(carrier) == size_bytes(call.dtype))
    return run(plan, operation, {{tensor.raw_data()}, carrier, call.count});

  const Tensor wide = empty({call.count}, {.dtype = carrier, .device = tensor.device()}, where);
  to_carrier(call.dtype, tensor.raw_data(), wide.raw_data(), call.count);
  run(plan, operation, {{wide.raw_data()}, carrier, call.count});
  if (is_result) from_carrier(call.dtype, wide.raw_data(), tensor.raw_data(), call.count);
}

void ThreadCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) {
  check_cpu("all_reduce", tensor.device(), where);
  reduce_in_place(Collective::all_reduce,
                  {CollectiveOp::all_reduce, tensor.dtype(), op, 0, tensor.numel()}, tensor, true,
                  where);
}

void ThreadCommunicator::do_reduce(const Tensor& tensor, int root, ReduceOp op, Where where) {
  check_cpu("reduce", tensor.device(), where);
  reduce_in_place(Collective::reduce,
                  {CollectiveOp::reduce, tensor.dtype(), op, root, tensor.numel()}, tensor,
                  rank() == root, where);
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
  run(programs({Collective::reduce_scatter}, where), operation,
      {{work.raw_data()}, carrier, count});
  const std::byte* own_part = work.raw_data() + rank() * output.numel() * size_bytes(carrier);
  from_carrier(input.dtype(), own_part, output.raw_data(), output.numel());
}

void ThreadCommunicator::do_all_gather(const Tensor& output, const Tensor& input, Where where) {
  check_cpu("all_gather", input.device(), where);
  check_cpu("all_gather", output.device(), where);
  const DType dtype = output.dtype();
  Operation operation =
      begin({CollectiveOp::all_gather, dtype, ReduceOp::sum, 0, output.numel()}, where);
  std::byte* own_part = output.raw_data() + rank() * input.numel() * size_bytes(dtype);
  if (own_part != input.raw_data()) copy_elements(own_part, input.raw_data(), input.numel(), dtype);
  run(programs({Collective::all_gather}, where), operation,
      {{output.raw_data()}, dtype, output.numel()});
}

void ThreadCommunicator::do_broadcast(const Tensor& tensor, int root, Where where) {
  check_cpu("broadcast", tensor.device(), where);
  const DType dtype = tensor.dtype();
  Operation operation =
      begin({CollectiveOp::broadcast, dtype, ReduceOp::sum, root, tensor.numel()}, where);
  const int segments = num_segments(tensor.numel(), dtype);
  run(programs({Collective::broadcast, segments, root}, where), operation,
      {{tensor.raw_data()}, dtype, tensor.numel()});
}

// The buffer is the output; beside it lies what this rank has for others: the input itself, unless
// the plan wants to write there.
void ThreadCommunicator::do_all_to_all(const Tensor& output, const Tensor& input, Where where) {
  check_cpu("all_to_all", input.device(), where);
  check_cpu("all_to_all", output.device(), where);
  const DType dtype = output.dtype();
  const std::int64_t count = input.numel(), part = count / world_size();
  Operation operation = begin({CollectiveOp::all_to_all, dtype, ReduceOp::sum, 0, count}, where);
  const PlanPrograms& plan = programs({Collective::all_to_all}, where);
  const PlanProgram& program = plan.ranks[rank()];
  Tensor beside = input;
  if (program.writes_beside) {
    beside = empty({program.num_beside * part}, {.dtype = dtype, .device = input.device()}, where);
    copy_elements(beside.raw_data(), input.raw_data(), count, dtype);
  }
  const std::size_t own_part = rank() * part * size_bytes(dtype);
  copy_elements(output.raw_data() + own_part, input.raw_data() + own_part, part, dtype);
  run(plan, operation, {{output.raw_data(), beside.raw_data()}, dtype, count});
}

// Entering is all there is to a barrier.
void ThreadCommunicator::do_barrier(Where where) {
  Operation operation = begin({}, where);
  enter(operation, {}, ++base_, 0);
}

// --- Messages ---

void ThreadCommunicator::do_send(const Tensor& tensor, int to, Where where) {
  check_cpu("send", tensor.device(), where);
  Operation operation =
      begin({CollectiveOp::send, tensor.dtype(), ReduceOp::sum, to, tensor.numel()},
            num_messages_to_[to] + 1, where);
  put_message(group_, state_->channel(rank(), to), operation, tensor.raw_data());
  num_messages_to_[to] = operation.sequence;
}

void ThreadCommunicator::do_recv(const Tensor& tensor, int from, Where where) {
  check_cpu("recv", tensor.device(), where);
  Operation operation =
      begin({CollectiveOp::recv, tensor.dtype(), ReduceOp::sum, from, tensor.numel()},
            num_messages_from_[from] + 1, where);
  take_message(group_, state_->channel(from, rank()), operation, tensor.raw_data());
  num_messages_from_[from] = operation.sequence;
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
  for (const auto& [collective, planner] : planners_of(options))
    RINGRAD_CHECK(planner, ValueError, where, "make_thread_group: ", name(collective),
                  " must have a planner; got none");
  const auto state = std::make_shared<ThreadGroupState>(world_size, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.push_back(std::make_unique<ThreadCommunicator>(rank, state));
  return ranks;
}

}  // namespace ringrad
