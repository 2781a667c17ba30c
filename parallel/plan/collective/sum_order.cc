#include "ringrad/parallel/plan/collective/sum_order.h"

#include <stdexcept>
#include <vector>

#include "ringrad/parallel/plan/collective/balanced_tree.h"
#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/replay.h"
#include "ringrad/parallel/plan/collective/symbolic_run.h"

namespace ringrad {
namespace {

using Value = SymbolicValues::Value;

Value sum_in_order(SymbolicValues& values, int world_size, SumOrder order) {
  std::vector<Value> sums;  // by the rank that represents a block
  for (int rank = 0; rank < world_size; ++rank) sums.push_back(values.leaf(rank));
  if (order == SumOrder::tree)
    for (const Join& join : balanced_tree(world_size))
      sums[join.left] = values.sum(sums[join.left], sums[join.right]);
  else
    for (int rank = 1; rank < world_size; ++rank) sums[0] = values.sum(sums[0], sums[rank]);
  return sums[0];
}

}  // namespace

bool has_sum_order(const CollectivePlan& plan, SumOrder order) {
  if (const auto example = plan_check(plan))
    throw std::invalid_argument("sum_order: the plan '" + plan.algorithm +
                                "' must be proved; got " + example->text);
  return proved_plan_has_sum_order(plan, order);
}

bool proved_plan_has_sum_order(const CollectivePlan& plan, SumOrder order) {
  if (order == SumOrder::fast || !adds(plan.collective)) return true;
  const Replay replayed = replay(plan, 1);
  SymbolicRun run(plan, replayed);
  const Value wanted = sum_in_order(run.values(), plan.world_size, order);
  for (int rank = 0; rank < plan.world_size; ++rank)
    for (int chunk = 0; chunk < plan.num_chunks; ++chunk)
      if (is_promised(plan, rank, chunk) && run.held(rank, chunk) != wanted) return false;
  return true;
}

SumOrder sum_order(const CollectivePlan& plan) {
  for (SumOrder order : {SumOrder::canonical, SumOrder::tree})
    if (has_sum_order(plan, order)) return order;
  return SumOrder::fast;
}

const char* name(SumOrder order) {
  constexpr const char* kNames[] = {"canonical", "tree", "fast"};
  return kNames[static_cast<std::size_t>(order)];
}

}  // namespace ringrad
