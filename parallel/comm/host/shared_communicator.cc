#include "ringrad/parallel/comm/host/shared_communicator.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "ringrad/core/transfer.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/common/culprit_report.h"
#include "ringrad/parallel/comm/common/own_process.h"
#include "ringrad/parallel/comm/common/unwinding.h"
#include "ringrad/parallel/comm/gpu/device_runner.h"
#include "ringrad/parallel/comm/memory/host_runner.h"
#include "ringrad/parallel/comm/memory/measure_links.h"
#include "ringrad/parallel/comm/memory/message_channel.h"
#include "ringrad/parallel/comm/memory/plan_collectives.h"
#include "ringrad/parallel/comm/memory/program_cache.h"
#include "ringrad/parallel/comm/memory/rank_session.h"
#include "ringrad/parallel/comm/memory/subgroup_memory.h"
#include "ringrad/parallel/comm/memory/survivors.h"

namespace ringrad {
namespace {

// What the ranks share: the group's state, its channels, its poll.
std::size_t poll_offset(int world_size) {
  return RankGroup::shared_bytes(world_size) + MessageChannels::shared_bytes(world_size);
}

// --- One rank ---

class SharedCommunicator final : public Communicator {
 public:
  SharedCommunicator(std::string group, int rank, int world_size,
                     std::shared_ptr<GroupMemory> memory, std::shared_ptr<ProgramCache> programs,
                     const GroupOptions& options)
      : Communicator(rank, world_size, std::move(group), options.rank_names),
        memory_(std::move(memory)),
        session_(rank, world_size, memory_, std::move(programs), options),
        group_(session_.group()),
        host_(session_),
        channels_(memory_->shared() + RankGroup::shared_bytes(world_size), world_size),
        poll_(*reinterpret_cast<SurvivorPoll*>(memory_->shared() + poll_offset(world_size))),
        num_messages_to_(world_size, 0),
        num_messages_from_(world_size, 0),
        outboxes_(world_size) {}

  ~SharedCommunicator() override {
    if (!in_own_process_) return;
    if (unwinding_) abort(kEndedByException);
    for (int r = 0; r < world_size(); ++r)
      outboxes_[static_cast<std::size_t>(r)].leave_to(group_, r, channels_.between(rank(), r));
    group_.leave();
    poll_.leave(rank());
  }

  Tensor empty_shared(const Shape& shape, const Options& options, Where where) override {
    const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_bytes(options.dtype);
    const auto place = runner_on(options.device, where).allocate(bytes, where);
    return from_memory(place.get(), shape, options, place, where);
  }

  int failed_rank() const noexcept override { return group_.failed_rank(); }

 protected:
  void do_abort(const std::string& reason) noexcept override {
    group_.fail(reason);
    if (DeviceRunner* const gpu = this->gpu()) gpu->abort();
  }
  void do_collective(const CollectiveCall& call, const Tensor& output, const Tensor& input,
                     Where where) override;
  void do_meet(const CollectiveCall& call, Where where) override;
  void do_send(const Tensor& tensor, int to, Where where) override;
  void do_recv(const Tensor& tensor, int from, Where where) override;
  std::unique_ptr<Communicator> do_split(const std::vector<int>& ranks, const std::string& name,
                                         Where where) override;
  std::unique_ptr<Communicator> do_shrink(Where where) override;
  std::optional<CostModel> do_links(const Device& device, Where where) override;

 private:
  bool reaches(const Device&) const override { return true; }
  // Null before the first tensor on a GPU. Any thread may call it, as abort() does.
  DeviceRunner* gpu() const {
    return RINGRAD_GPUS ? gpu_in_use_.load(std::memory_order_acquire) : nullptr;
  }
  void check_gpu();
  PlanRunner& runner_on(Device device, Where where);
  Operation message(CollectiveOp op, const Tensor& tensor, int peer, std::uint64_t sequence,
                    Where where);
  std::uintptr_t make_subgroup_shared(int num_ranks, Where where);
  std::unique_ptr<Communicator> make_subgroup(const std::vector<int>& ranks, int maker,
                                              std::uintptr_t shared, const std::string& name,
                                              Where where);

  const std::shared_ptr<GroupMemory> memory_;
  RankSession session_;
  RankGroup& group_;
  HostRunner host_;
  std::shared_ptr<DeviceRunner> gpu_;                // a CPU-only build lacks the destructor
  std::atomic<DeviceRunner*> gpu_in_use_ = nullptr;  // the same
  const MessageChannels channels_;
  SurvivorPoll& poll_;
  std::vector<std::uint64_t> num_messages_to_, num_messages_from_;  // (world_size)
  std::vector<Outbox> outboxes_;                                    // (world_size)
  const Unwinding unwinding_;
  const OwnProcess in_own_process_;
};

// --- Collectives ---

void SharedCommunicator::do_collective(const CollectiveCall& call, const Tensor& output,
                                       const Tensor& input, Where where) {
  check_gpu();
  Operation operation = session_.begin(call, where);
  // What the call writes on this rank, and what it reads besides: a broadcast's root only reads.
  const bool only_reads = call.op == CollectiveOp::broadcast && call.peer == rank();
  if (!only_reads) operation.output = output.raw_data();
  if (only_reads || !is_in_place(call.op)) operation.input = input.raw_data();
  PlanRunner& runner = runner_on(input.device(), where);
  runner.meet(operation);
  PlanCollectives(session_, runner, operation).run(output, input);
}

// What this rank's GPU gave up has left no result that others should get.
void SharedCommunicator::check_gpu() {
  if (gpu() && gpu()->gave_up()) abort("its GPU gave up waiting for another rank's");
}

PlanRunner& SharedCommunicator::runner_on(Device device, Where where) {
  if (device.is_cpu()) return host_;
  if (!gpu_) {
    gpu_ = std::make_shared<DeviceRunner>(session_, device, where);
    gpu_in_use_.store(gpu_.get(), std::memory_order_release);
  }
  RINGRAD_CHECK(gpu_->device() == device, DeviceError, where,
                "communicator: a rank of a group works with one GPU; got a tensor on ", device,
                " after ", gpu_->device());
  return *gpu_;
}

std::optional<CostModel> SharedCommunicator::do_links(const Device& device, Where where) {
  Operation operation = session_.begin({.op = CollectiveOp::links, .device = device.type}, where);
  PlanRunner& runner = runner_on(device, where);
  runner.meet(operation);
  session_.exchange(operation, 0);  // even if they are known: all ranks must have made this call
  share_links(session_, runner, operation);
  session_.count(operation);
  return session_.links(device.type);
}

// Entering is all there is to it.
void SharedCommunicator::do_meet(const CollectiveCall& call, Where where) {
  Operation operation = session_.begin(call, where);
  session_.enter(operation, {}, session_.reserve(0), 0);
}

// --- Messages ---

// The next on its channel, whatever collectives there were. A rank that receives from a GPU has met
// its sender: by program order, since the sender has met it before.
Operation SharedCommunicator::message(CollectiveOp op, const Tensor& tensor, int peer,
                                      std::uint64_t sequence, Where where) {
  check_gpu();
  Operation operation{
      call_of(op, tensor, ReduceOp::sum, peer), rank(), sequence, where, {}, &rank_names()};
  group_.check_whole(operation);
  return operation;
}

void SharedCommunicator::do_send(const Tensor& tensor, int to, Where where) {
  Operation operation = message(CollectiveOp::send, tensor, to, num_messages_to_[to] + 1, where);
  MessageChannel& channel = channels_.between(rank(), to);
  if (gpu() && gpu()->has_met() && gpu()->device() == tensor.device())
    gpu()->send(channel, operation, tensor.raw_data());
  else
    outboxes_[to].send(group_, channel, operation, session_.next_entry(),
                       to_host(tensor, where).raw_data());
  num_messages_to_[to] = operation.sequence;
}

void SharedCommunicator::do_recv(const Tensor& tensor, int from, Where where) {
  Operation operation =
      message(CollectiveOp::recv, tensor, from, num_messages_from_[from] + 1, where);
  MessageChannel& channel = channels_.between(from, rank());
  const MessageChannel::Slot& sent =
      wait_for_message(group_, channel, operation, session_.next_entry());
  RINGRAD_ASSERT(gpu() || sent.device == DeviceType::cpu);
  if (gpu() && sent.device == DeviceType::cuda) {
    gpu()->receive(channel, operation, sent.elements, tensor);
  } else {
    const std::byte* elements = group_.address(from, sent.elements);
    copy_bytes(tensor.raw_data(), tensor.device(), elements, Device(),
               static_cast<std::size_t>(sent.count) * size_bytes(sent.dtype), where);
    publish_taken(group_, channel, operation);
  }
  num_messages_from_[from] = operation.sequence;
}

// --- Other groups of the same ranks ---

// The memory that a new group of `num_ranks` shares, by its distance from this rank's base. Others
// may look at it after this rank has left.
std::uintptr_t SharedCommunicator::make_subgroup_shared(int num_ranks, Where where) {
  const auto place =
      memory_->allocate(SubgroupMemory::kHeaderBytes + shared_bytes(num_ranks), where);
  SubgroupMemory::make_users(place.get(), num_ranks);
  make_shared(place.get() + SubgroupMemory::kHeaderBytes, num_ranks);
  memory_->keep(place, [begin = place.get()] { return SubgroupMemory::has_no_users(begin); });
  return group_.distance(rank(), place.get());
}

std::unique_ptr<Communicator> SharedCommunicator::make_subgroup(const std::vector<int>& ranks,
                                                                int maker, std::uintptr_t shared,
                                                                const std::string& name,
                                                                Where where) {
  const int size = static_cast<int>(ranks.size());
  const auto own = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  auto memory = std::make_shared<SubgroupMemory>(memory_, ranks, group_.address(maker, shared));
  GroupOptions options = session_.options();
  options.rank_names = rank_names().of(ranks);
  return make_shared_communicator(name, static_cast<int>(own), size, std::move(memory),
                                  make_programs(size, options, where), options);
}

std::unique_ptr<Communicator> SharedCommunicator::do_split(const std::vector<int>& ranks,
                                                           const std::string& name, Where where) {
  const Options numbers{.dtype = DType::int64, .device = Device()};
  const Tensor own = empty({1}, numbers, where), all = empty({world_size()}, numbers, where);
  const bool is_maker = !ranks.empty() && ranks[0] == rank();
  const int size = static_cast<int>(ranks.size());
  own.data<std::int64_t>()[0] =
      is_maker ? static_cast<std::int64_t>(make_subgroup_shared(size, where)) : 0;
  do_collective(call_of(CollectiveOp::all_gather, all), all, own, where);
  if (ranks.empty()) return nullptr;
  const auto shared = static_cast<std::uintptr_t>(all.data<std::int64_t>()[ranks[0]]);
  return make_subgroup(ranks, ranks[0], shared, name, where);
}

std::unique_ptr<Communicator> SharedCommunicator::do_shrink(Where where) {
  if (gpu()) gpu()->leave_behind();
  const Survivors survivors = poll_.agree(
      rank(), world_size(), *memory_, session_.options().deadline, rank_names(),
      [&](int num_ranks) { return make_subgroup_shared(num_ranks, where); }, where);
  if (!memory_->is_one_process()) {
    // On CPUs, a rank that is in no call gets the error at its next one. Work on a GPU outlives the
    // call.
    group_.shut_out(gpu() ? survivors.left_out : std::vector<int>(), where);
    retract_report();
  }
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
