#include "parallel/comm/shared_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <map>
#include <new>
#include <optional>

#include "parallel/comm/collective_call.h"
#include "parallel/comm/message_channel.h"
#include "parallel/comm/rank_group.h"
#include "parallel/comm/reachable.h"
#include "parallel/comm/reduce_terms.h"
#include "parallel/comm/subgroup_memory.h"
#include "parallel/comm/survivors.h"

namespace ringrad {
namespace {

// A chunk should stay in a second-level cache (1 to 2 MiB) from one step to the next; smaller ones
// only add steps. With more than a few segments nothing more is gained.
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::int64_t kMaxSegments = 8;

// What the ranks share: the group's state, its channels, its poll.
std::size_t poll_offset(int world_size) {
  return RankGroup::shared_bytes(world_size) + MessageChannels::shared_bytes(world_size);
}

void copy_elements(std::byte* to, const std::byte* from, std::int64_t count, DType dtype) {
  if (count > 0) std::memcpy(to, from, count * size_bytes(dtype));
}

// --- One rank ---

class SharedCommunicator final : public Communicator {
 public:
  SharedCommunicator(std::string group, int rank, int world_size,
                     std::shared_ptr<GroupMemory> memory, std::shared_ptr<ProgramCache> programs,
                     const GroupOptions& options)
      : Communicator(rank, world_size, std::move(group)),
        memory_(std::move(memory)),
        group_(rank, world_size, memory_, options.deadline),
        channels_(memory_->shared() + RankGroup::shared_bytes(world_size), world_size),
        poll_(*reinterpret_cast<SurvivorPoll*>(memory_->shared() + poll_offset(world_size))),
        programs_(std::move(programs)),
        options_(options),
        num_messages_to_(world_size, 0),
        num_messages_from_(world_size, 0),
        outboxes_(world_size) {}

  ~SharedCommunicator() override {
    if (std::uncaught_exceptions() > exceptions_before_) group_.fail("an exception ended its work");
    for (Outbox& outbox : outboxes_) outbox.leave_to(*memory_);
    group_.leave();
    poll_.leave(rank());
  }

  Tensor empty_shared(const Shape& shape, DType dtype, Where where) override {
    const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_bytes(dtype);
    const std::shared_ptr<std::byte> place = memory_->allocate(bytes, where);
    return from_memory(place.get(), shape, {.dtype = dtype, .device = Device()}, place, where);
  }

  void abort(const std::string& reason) noexcept override { group_.fail(reason); }
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
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string& name,
                                         Where where) override;
  std::unique_ptr<Communicator> do_shrink(Where where) override;

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
  std::uintptr_t make_subgroup_shared(int num_ranks, Where where);
  std::unique_ptr<Communicator> make_subgroup(const std::vector<int>& ranks, int maker,
                                              std::uintptr_t shared, const std::string& name,
                                              Where where);
  void reduce_in_place(Collective collective, const CollectiveCall& call, const Tensor& tensor,
                       bool is_result, Where where);

  const std::shared_ptr<GroupMemory> memory_;
  RankGroup group_;
  const MessageChannels channels_;
  SurvivorPoll& poll_;
  const std::shared_ptr<ProgramCache> programs_;
  const GroupOptions options_;
  std::uint64_t sequence_ = 0;  // of the latest collective that was entered
  std::uint64_t base_ = 0;      // progress before the next one, equal on all ranks
  std::map<ProgramKey, const PlanPrograms*> known_programs_;
  std::vector<const std::byte*> terms_;  // of the sum at work, and where it goes
  std::vector<std::byte*> results_;
  std::vector<std::uint64_t> num_messages_to_, num_messages_from_;  // (world_size)
  std::vector<Outbox> outboxes_;                                    // (world_size)
  const int exceptions_before_ = std::uncaught_exceptions();
};

// --- Running a plan ---

Operation SharedCommunicator::begin(const CollectiveCall& call, std::uint64_t sequence,
                                    Where where) {
  Operation operation{call, rank(), sequence, where, {}};
  group_.check_whole(operation);
  return operation;
}

void SharedCommunicator::run(const PlanPrograms& programs, Operation operation, Data data) {
  const PlanProgram& program = programs.ranks[rank()];
  data.num_parts = programs.num_parts;
  std::shared_ptr<std::byte> beside;  // outlives `inside`: until then others may read it
  if (program.num_beside > 0 && data.memory.beside == nullptr) {
    const std::int64_t count = data.range(program.num_beside - 1).end;
    beside = memory_->allocate(count * size_bytes(data.dtype), operation.where);
    data.memory.beside = beside.get();
  }
  const std::uint64_t entered = base_ + 1;
  base_ = entered + programs.max_length;
  const RankGroup::Inside inside(group_, operation);

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
        group_.publish(entered + i + 1);
    } else if (instruction.op == StepOp::stage) {
      stage(instruction);
    } else {
      receive(instruction, operation, data, entered);
    }
  }
  group_.publish(entered + length);
  for (const Milestone& last_read : program.last_reads)
    group_.wait(operation, last_read.rank, entered + last_read.progress, entered);
  group_.check_whole(operation);  // others may have left before this rank's last chunk
}

// All ranks must have made the same call before anybody's memory is touched. What a rank sends
// before it receives anything is its input, so it is published together with the entry.
void SharedCommunicator::enter(Operation& operation, const RankMemory& memory,
                               std::uint64_t entered, int leading) {
  const std::uint64_t sequence = sequence_ = operation.sequence;
  group_.enter(sequence, operation.call, memory, entered + leading);
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

void SharedCommunicator::receive(const Instruction& instruction, Operation& operation,
                                 const Data& data, std::uint64_t entered) {
  const ElementRange range = data.range(instruction.place.part);
  const auto at = [&](int peer, Place place) {
    // Terms of a sum are parts alike; dividing once is enough.
    const bool is_alike = place.part == instruction.place.part;
    const std::int64_t begin = is_alike ? range.begin : data.range(place.part).begin;
    return address(peer, place.area, begin, operation, data);
  };
  group_.check_whole(operation);  // a rank that was late does not go on
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

int SharedCommunicator::num_segments(std::int64_t count, DType dtype) const {
  if (options_.segments > 0) return options_.segments;
  const std::int64_t bytes = count * static_cast<std::int64_t>(size_bytes(dtype));
  const std::int64_t wanted = bytes / (kChunkBytes * world_size());
  // Powers of two, so that few different plans are made.
  const auto power = std::bit_floor(static_cast<std::uint64_t>(wanted));
  return static_cast<int>(std::clamp<std::int64_t>(power, 1, kMaxSegments));
}

const PlanPrograms& SharedCommunicator::programs(const ProgramKey& key, Where where) {
  const PlanPrograms*& known = known_programs_[key];
  if (known == nullptr) known = &programs_->get(key, where);
  return *known;
}

void SharedCommunicator::reduce_in_place(Collective collective, const CollectiveCall& call,
                                         const Tensor& tensor, bool is_result, Where where) {
  const DType carrier = carrier_dtype(call.dtype);
  Operation operation = begin(call, where);
  const PlanPrograms& plan =
      programs({collective, num_segments(call.count, carrier), call.peer}, where);
  if (size_bytes(carrier) == size_bytes(call.dtype)) {
    const Reachable place(*memory_, tensor, is_result ? Reachable::Copy::both : Reachable::Copy::in,
                          where);
    run(plan, operation, {{place.data()}, carrier, call.count});
    return place.put_back();
  }
  const auto wide = memory_->allocate(call.count * size_bytes(carrier), where);
  to_carrier(call.dtype, tensor.raw_data(), wide.get(), call.count);
  run(plan, operation, {{wide.get()}, carrier, call.count});
  if (is_result) from_carrier(call.dtype, wide.get(), tensor.raw_data(), call.count);
}

void SharedCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op, Where where) {
  check_cpu("all_reduce", tensor.device(), where);
  reduce_in_place(Collective::all_reduce,
                  {CollectiveOp::all_reduce, tensor.dtype(), op, 0, tensor.numel()}, tensor, true,
                  where);
}

void SharedCommunicator::do_reduce(const Tensor& tensor, int root, ReduceOp op, Where where) {
  check_cpu("reduce", tensor.device(), where);
  reduce_in_place(Collective::reduce,
                  {CollectiveOp::reduce, tensor.dtype(), op, root, tensor.numel()}, tensor,
                  rank() == root, where);
}

void SharedCommunicator::do_reduce_scatter(const Tensor& output, const Tensor& input, ReduceOp op,
                                           Where where) {
  check_cpu("reduce_scatter", input.device(), where);
  check_cpu("reduce_scatter", output.device(), where);
  const std::int64_t count = input.numel();
  const DType carrier = carrier_dtype(input.dtype());
  Operation operation = begin({CollectiveOp::reduce_scatter, input.dtype(), op, 0, count}, where);
  // Partial sums need a place, and the input is the caller's: the plan runs on a copy.
  const auto work = memory_->allocate(count * size_bytes(carrier), where);
  to_carrier(input.dtype(), input.raw_data(), work.get(), count);
  run(programs({Collective::reduce_scatter}, where), operation, {{work.get()}, carrier, count});
  const std::byte* own_part = work.get() + rank() * output.numel() * size_bytes(carrier);
  from_carrier(input.dtype(), own_part, output.raw_data(), output.numel());
}

void SharedCommunicator::do_all_gather(const Tensor& output, const Tensor& input, Where where) {
  check_cpu("all_gather", input.device(), where);
  check_cpu("all_gather", output.device(), where);
  const DType dtype = output.dtype();
  Operation operation =
      begin({CollectiveOp::all_gather, dtype, ReduceOp::sum, 0, output.numel()}, where);
  const Reachable place(*memory_, output, Reachable::Copy::out, where);
  std::byte* own_part = place.data() + rank() * input.numel() * size_bytes(dtype);
  if (own_part != input.raw_data()) copy_elements(own_part, input.raw_data(), input.numel(), dtype);
  run(programs({Collective::all_gather}, where), operation,
      {{place.data()}, dtype, output.numel()});
  place.put_back();
}

void SharedCommunicator::do_broadcast(const Tensor& tensor, int root, Where where) {
  check_cpu("broadcast", tensor.device(), where);
  const DType dtype = tensor.dtype();
  Operation operation =
      begin({CollectiveOp::broadcast, dtype, ReduceOp::sum, root, tensor.numel()}, where);
  const int segments = num_segments(tensor.numel(), dtype);
  const auto copy = rank() == root ? Reachable::Copy::in : Reachable::Copy::out;
  const Reachable place(*memory_, tensor, copy, where);
  run(programs({Collective::broadcast, segments, root}, where), operation,
      {{place.data()}, dtype, tensor.numel()});
  place.put_back();
}

// The buffer is the output; beside it lies what this rank has for others: the input itself, unless
// the plan wants to write there.
void SharedCommunicator::do_all_to_all(const Tensor& output, const Tensor& input, Where where) {
  check_cpu("all_to_all", input.device(), where);
  check_cpu("all_to_all", output.device(), where);
  const DType dtype = output.dtype();
  const std::int64_t count = input.numel(), part = count / world_size();
  Operation operation = begin({CollectiveOp::all_to_all, dtype, ReduceOp::sum, 0, count}, where);
  const PlanPrograms& plan = programs({Collective::all_to_all}, where);
  const PlanProgram& program = plan.ranks[rank()];
  const Reachable result(*memory_, output, Reachable::Copy::out, where);
  std::optional<Reachable> own;
  std::shared_ptr<std::byte> written;
  if (program.writes_beside) {
    written = memory_->allocate(program.num_beside * part * size_bytes(dtype), where);
    copy_elements(written.get(), input.raw_data(), count, dtype);
  } else {
    own.emplace(*memory_, input, Reachable::Copy::in, where);
  }
  const std::size_t own_part = rank() * part * size_bytes(dtype);
  copy_elements(result.data() + own_part, input.raw_data() + own_part, part, dtype);
  run(plan, operation, {{result.data(), own ? own->data() : written.get()}, dtype, count});
  result.put_back();
}

// Entering is all there is to a barrier.
void SharedCommunicator::do_barrier(Where where) {
  Operation operation = begin({}, where);
  enter(operation, {}, ++base_, 0);
}

// --- Messages ---

void SharedCommunicator::do_send(const Tensor& tensor, int to, Where where) {
  check_cpu("send", tensor.device(), where);
  Operation operation =
      begin({CollectiveOp::send, tensor.dtype(), ReduceOp::sum, to, tensor.numel()},
            num_messages_to_[to] + 1, where);
  outboxes_[to].put(group_, channels_.between(rank(), to), operation, tensor.raw_data());
  num_messages_to_[to] = operation.sequence;
}

void SharedCommunicator::do_recv(const Tensor& tensor, int from, Where where) {
  check_cpu("recv", tensor.device(), where);
  Operation operation =
      begin({CollectiveOp::recv, tensor.dtype(), ReduceOp::sum, from, tensor.numel()},
            num_messages_from_[from] + 1, where);
  take_message(group_, channels_.between(from, rank()), operation, tensor.raw_data());
  num_messages_from_[from] = operation.sequence;
}

// --- Other groups of the same ranks ---

// The memory that a new group of `num_ranks` shares, by its distance from this rank's base. It stays for as
// long as any of its groups: others may look at it after this rank has left.
std::uintptr_t SharedCommunicator::make_subgroup_shared(int num_ranks, Where where) {
  const auto place = memory_->allocate(shared_bytes(num_ranks), where);
  make_shared(place.get(), num_ranks);
  memory_->keep(place);
  return group_.distance(rank(), place.get());
}

std::unique_ptr<Communicator> SharedCommunicator::make_subgroup(const std::vector<int>& ranks,
                                                                int maker, std::uintptr_t shared,
                                                                const std::string& name,
                                                                Where where) {
  const int size = static_cast<int>(ranks.size());
  const auto own = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  auto memory = std::make_shared<SubgroupMemory>(memory_, ranks, group_.address(maker, shared));
  return make_shared_communicator(name, static_cast<int>(own), size, std::move(memory),
                                  make_programs(size, options_, where), options_);
}

std::unique_ptr<Communicator> SharedCommunicator::do_split(const std::vector<int>& ranks,
                                                           const std::string& name, Where where) {
  const Options numbers{.dtype = DType::int64, .device = Device()};
  const Tensor own = empty({1}, numbers, where), all = empty({world_size()}, numbers, where);
  const bool is_maker = !ranks.empty() && ranks[0] == rank();
  const int size = static_cast<int>(ranks.size());
  own.data<std::int64_t>()[0] =
      is_maker ? static_cast<std::int64_t>(make_subgroup_shared(size, where)) : 0;
  do_all_gather(all, own, where);
  if (ranks.empty()) return nullptr;
  const auto shared = static_cast<std::uintptr_t>(all.data<std::int64_t>()[ranks[0]]);
  return make_subgroup(ranks, ranks[0], shared, name, where);
}

std::unique_ptr<Communicator> SharedCommunicator::do_shrink(Where where) {
  const Survivors survivors = poll_.agree(
      rank(), world_size(), *memory_, options_.deadline,
      [&](int num_ranks) { return make_subgroup_shared(num_ranks, where); }, where);
  return make_subgroup(survivors.ranks, survivors.decider, survivors.shared, group() + ".shrunk",
                       where);
}

}  // namespace

std::size_t shared_bytes(int world_size) { return poll_offset(world_size) + sizeof(SurvivorPoll); }

void make_shared(std::byte* shared, int world_size) {
  RankGroup::make_shared(shared, world_size);
  MessageChannels::make_shared(shared + RankGroup::shared_bytes(world_size), world_size);
  new (shared + poll_offset(world_size)) SurvivorPoll();
}

std::unique_ptr<Communicator> make_shared_communicator(std::string group, int rank, int world_size,
                                                       std::shared_ptr<GroupMemory> memory,
                                                       std::shared_ptr<ProgramCache> programs,
                                                       const GroupOptions& options) {
  return std::make_unique<SharedCommunicator>(std::move(group), rank, world_size, std::move(memory),
                                              std::move(programs), options);
}

}  // namespace ringrad
