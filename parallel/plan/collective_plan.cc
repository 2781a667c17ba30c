#include "parallel/plan/collective_plan.h"

#include <algorithm>
#include <ostream>
#include <utility>

namespace ringrad {

void CollectivePlan::send(int step, int rank, int chunk, int to) {
  steps.push_back({step, rank, StepOp::send, chunk, {to}});
}

void CollectivePlan::recv(int step, int rank, int chunk, int from) {
  steps.push_back({step, rank, StepOp::recv, chunk, {from}});
}

void CollectivePlan::recv_reduce(int step, int rank, int chunk, std::vector<int> terms) {
  steps.push_back({step, rank, StepOp::recv_reduce, chunk, std::move(terms)});
}

ElementRange chunk_range(std::int64_t count, int num_chunks, int chunk) {
  // The first `longer` chunks hold one element more. Written without count * chunk, which could
  // overflow.
  const std::int64_t base = count / num_chunks;
  const std::int64_t longer = count % num_chunks;
  const auto begin_of = [&](std::int64_t c) { return c * base + std::min(c, longer); };
  return {begin_of(chunk), begin_of(chunk + 1)};
}

int owner(const CollectivePlan& plan, int chunk) {
  return chunk / (plan.num_chunks / plan.world_size);
}

int num_steps(const CollectivePlan& plan) {
  int last = -1;
  for (const Step& step : plan.steps) last = std::max(last, step.step);
  return last + 1;
}

std::int64_t elements_sent(const CollectivePlan& plan, int rank, std::int64_t count) {
  std::int64_t sum = 0;
  for (const Step& step : plan.steps)
    if (step.rank == rank && step.op == StepOp::send)
      sum += chunk_range(count, plan.num_chunks, step.chunk).size();
  return sum;
}

const char* name(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      break;
  }
  return "broadcast";
}

const char* name(StepOp op) {
  switch (op) {
    case StepOp::send:
      return "send";
    case StepOp::recv:
      return "recv";
    case StepOp::recv_reduce:
      break;
  }
  return "recv_reduce";
}

std::ostream& operator<<(std::ostream& out, const Step& step) {
  out << "rank " << step.rank << ' ' << name(step.op) << " chunk " << step.chunk
      << (step.op == StepOp::send ? " ->" : " <-");
  for (int peer : step.peers) out << ' ' << peer;
  return out;
}

std::ostream& operator<<(std::ostream& out, const CollectivePlan& plan) {
  out << plan.algorithm << ' ' << name(plan.collective) << ": " << plan.world_size << " ranks, "
      << plan.num_chunks << " chunks, " << num_steps(plan) << " steps";
  if (plan.collective == Collective::broadcast) out << ", root " << plan.root;
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
