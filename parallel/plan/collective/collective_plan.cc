#include "ringrad/parallel/plan/collective/collective_plan.h"

#include <algorithm>
#include <numeric>
#include <ostream>

#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {

std::vector<int> CollectivePlan::ranks() const {
  if (only_rank != kAllRanks) return {only_rank};
  return first_integers(world_size);
}

CollectivePlan empty_plan(Collective collective, std::string algorithm, WorldSize world_size,
                          int num_chunks) {
  require(world_size >= 1 && num_chunks >= 1, algorithm, ' ', name(collective),
          ": ranks and chunks must be positive; got ", int{world_size}, " and ", num_chunks);
  const int only = world_size.only_rank;
  require(only == kAllRanks || (only >= 0 && only < world_size), algorithm, ' ', name(collective),
          ": the only rank must be one of ", int{world_size}, "; got ", only);
  CollectivePlan plan;
  plan.collective = collective;
  plan.algorithm = std::move(algorithm);
  plan.world_size = world_size;
  plan.only_rank = only;
  plan.num_chunks = num_chunks;
  return plan;
}

CollectivePlan empty_rooted_plan(Collective collective, std::string algorithm, WorldSize world_size,
                                 int root) {
  CollectivePlan plan = empty_plan(collective, std::move(algorithm), world_size);
  require(root >= 0 && root < plan.world_size, plan.algorithm, ' ', name(collective),
          ": root must be a rank; got root ", root, " and world size ", plan.world_size);
  plan.root = root;
  return plan;
}

bool continues_message(const Step& send, const Step& next) {
  return is_send(send.op) && is_send(next.op) && send.step == next.step && send.peers == next.peers;
}

ElementRange chunk_range(std::int64_t count, int num_chunks, int chunk, std::int64_t granule) {
  // The first `longer` chunks hold one granule more, and the last granule is the remainder. This
  // form avoids count * chunk and rounding up, which could overflow.
  const std::int64_t granules = count / granule + (count % granule != 0);
  const std::int64_t base = granules / num_chunks;
  const std::int64_t longer = granules % num_chunks;
  const auto begin_of = [&](std::int64_t c) {
    const std::int64_t first = c * base + std::min(c, longer);
    return first == granules ? count : first * granule;
  };
  return {begin_of(chunk), begin_of(chunk + 1)};
}

int owner(const CollectivePlan& plan, int chunk) {
  return chunk / (plan.num_chunks / plan.world_size);
}

int contributor(const CollectivePlan& plan, int chunk) {
  return plan.collective == Collective::broadcast ? plan.root : owner(plan, chunk);
}

bool is_promised(const CollectivePlan& plan, int rank, int chunk) {
  if (plan.collective == Collective::reduce_scatter) return owner(plan, chunk) == rank;
  if (plan.collective == Collective::reduce) return rank == plan.root;
  if (plan.collective == Collective::all_to_all) return chunk % plan.world_size == rank;
  return true;
}

std::int64_t chunk_size(const CollectivePlan& plan, int chunk, std::int64_t count) {
  if (plan.collective == Collective::all_to_all)
    return chunk_range(count, plan.world_size, chunk % plan.world_size).size();
  return chunk_range(count, plan.num_chunks, chunk).size();
}

std::vector<int> first_integers(int count) {
  std::vector<int> integers(static_cast<std::size_t>(count));
  std::iota(integers.begin(), integers.end(), 0);
  return integers;
}

int num_steps(const CollectivePlan& plan) {
  int last = -1;
  for (const Step& step : plan.steps) last = std::max(last, step.step);
  return last + 1;
}

std::int64_t elements_sent(const CollectivePlan& plan, int rank, std::int64_t count) {
  std::int64_t sum = 0;
  for (const Step& step : plan.steps)
    if (step.rank == rank && is_send(step.op)) sum += chunk_size(plan, step.chunk, count);
  return sum;
}

int messages_sent(const CollectivePlan& plan, int rank) {
  int messages = 0;
  const Step* last = nullptr;
  for (const Step& step : plan.steps) {
    if (step.rank != rank) continue;
    if (is_send(step.op) && !(last != nullptr && continues_message(*last, step))) ++messages;
    last = &step;
  }
  return messages;
}

const char* name(Collective collective) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather",
                                    "broadcast",  "reduce",         "all_to_all"};
  return kNames[static_cast<std::size_t>(collective)];
}

const char* name(StepOp op) {
  constexpr const char* kNames[] = {"send", "recv", "recv_reduce", "stage", "send_staged"};
  return kNames[static_cast<std::size_t>(op)];
}

std::ostream& operator<<(std::ostream& out, const Step& step) {
  out << "rank " << step.rank << ' ' << name(step.op) << " chunk " << step.chunk;
  if (is_send(step.op)) out << " ->";
  if (is_receive(step.op)) out << " <-";
  for (int peer : step.peers) out << ' ' << peer;
  return out;
}

std::ostream& operator<<(std::ostream& out, const CollectivePlan& plan) {
  out << plan.algorithm << ' ' << name(plan.collective) << ": " << plan.world_size << " ranks, "
      << plan.num_chunks << " chunks, " << num_steps(plan) << " steps";
  if (has_root(plan.collective)) out << ", root " << plan.root;
  out << '\n';
  // A stable sort by slot keeps every rank's own order, which is what execution follows.
  std::vector<const Step*> by_slot;
  for (const Step& step : plan.steps) by_slot.push_back(&step);
  std::stable_sort(by_slot.begin(), by_slot.end(),
                   [](const Step* a, const Step* b) { return a->step < b->step; });
  for (const Step* step : by_slot) out << "step " << step->step << ": " << *step << '\n';
  return out;
}

}  // namespace ringrad
