#include "ringrad/parallel/plan/collective/compose.h"

#include <algorithm>

#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {

void embed(CollectivePlan& plan, const CollectivePlan& part, const Placement& placement) {
  for (const Step& step : part.steps) {
    if (!plan.holds(placement.ranks[step.rank])) continue;
    Step placed = step;
    placed.step += placement.first_slot;
    placed.rank = placement.ranks[step.rank];
    for (int& peer : placed.peers) peer = placement.ranks[peer];
    placed.chunk = placement.first_chunk + step.chunk * placement.chunks_per_chunk;
    for (int i = 0; i < placement.chunks_per_chunk; ++i, ++placed.chunk)
      plan.steps.push_back(placed);
  }
}

void order_by_slot(CollectivePlan& plan) {
  std::stable_sort(plan.steps.begin(), plan.steps.end(), [](const Step& a, const Step& b) {
    return a.step != b.step ? a.step < b.step : is_receive(a.op) < is_receive(b.op);
  });
}

CollectivePlan pipelined(const CollectivePlan& one, int segments) {
  require(segments >= 1, one.algorithm, ' ', name(one.collective),
          ": segments must be positive; got ", segments);
  CollectivePlan plan = one;
  plan.steps.clear();
  plan.num_chunks = one.num_chunks * segments;
  const std::vector<int> ranks = first_integers(one.world_size);
  for (int g = 0; g < segments; ++g)
    embed(plan, one, {.ranks = ranks, .first_chunk = g * one.num_chunks, .first_slot = g});
  order_by_slot(plan);
  return plan;
}

}  // namespace ringrad
