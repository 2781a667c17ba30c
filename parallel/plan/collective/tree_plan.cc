#include "ringrad/parallel/plan/collective/tree_plan.h"

#include <bit>
#include <vector>

#include "ringrad/parallel/plan/collective/balanced_tree.h"
#include "ringrad/parallel/plan/collective/compose.h"

namespace ringrad {
namespace {

int depth_of(int rank) { return std::bit_width(static_cast<unsigned>(rank) + 1) - 1; }

std::vector<int> children_of(int rank, int world_size) {
  std::vector<int> children;
  for (int child : {2 * rank + 1, 2 * rank + 2})
    if (child < world_size) children.push_back(child);
  return children;
}

}  // namespace

CollectivePlan tree_all_reduce(WorldSize world_size, int segments) {
  CollectivePlan plan = empty_plan(Collective::all_reduce, "tree", world_size);
  const int height = depth_of(world_size - 1);
  // From the deepest rank to the root: a rank sends its sum one slot after making it.
  for (int r = world_size - 1; r >= 0; --r) {
    const std::vector<int> children = children_of(r, world_size);
    const int sum_slot = height - depth_of(r) - 1;
    std::vector<int> terms{r};
    terms.insert(terms.end(), children.begin(), children.end());
    if (!children.empty()) plan.recv_reduce(sum_slot, r, 0, terms);
    if (r > 0) plan.send(sum_slot + 1, r, 0, (r - 1) / 2);
  }
  for (int r = 0; r < world_size; ++r) {
    const int slot = height + depth_of(r);
    if (r > 0) plan.recv(slot - 1, r, 0, (r - 1) / 2);
    for (int child : children_of(r, world_size)) plan.send(slot, r, 0, child);
  }
  return pipelined(plan, segments);
}

CollectivePlan binomial_broadcast(WorldSize world_size, int root) {
  CollectivePlan plan = empty_rooted_plan(Collective::broadcast, "binomial", world_size, root);
  const std::vector<Join> joins = balanced_tree(world_size, root);
  for (auto join = joins.rbegin(); join != joins.rend(); ++join) {
    const int slot = joins.back().round - join->round;
    plan.send(slot, join->head, 0, join->other());
    plan.recv(slot, join->other(), 0, join->head);
  }
  return plan;
}

CollectivePlan binomial_reduce(WorldSize world_size, int root) {
  CollectivePlan plan = empty_rooted_plan(Collective::reduce, "binomial", world_size, root);
  for (const Join& join : balanced_tree(world_size, root)) {
    plan.send(join.round, join.other(), 0, join.head);
    plan.recv_reduce(join.round, join.head, 0, {join.left, join.right});
  }
  return plan;
}

}  // namespace ringrad
