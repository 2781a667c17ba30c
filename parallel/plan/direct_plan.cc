#include "parallel/plan/direct_plan.h"

#include <numeric>
#include <stdexcept>
#include <vector>

namespace ringrad {
namespace {

// At distance d every rank sends to the rank d ahead, so no receiver is everybody's first target.
int ahead(const CollectivePlan& plan, int rank, int distance) {
  return (rank + distance) % plan.world_size;
}

void shot_to_owners(CollectivePlan& plan, int slot, int segment) {
  const int n = plan.world_size;
  std::vector<int> rank_order(n);
  std::iota(rank_order.begin(), rank_order.end(), 0);
  for (int r = 0; r < n; ++r)
    for (int d = 1; d < n; ++d)
      plan.send(slot, r, segment * n + ahead(plan, r, d), ahead(plan, r, d));
  for (int r = 0; r < n; ++r) plan.recv_reduce(slot, r, segment * n + r, rank_order);
}

void shot_from_owners(CollectivePlan& plan, int slot, int segment) {
  const int n = plan.world_size;
  for (int r = 0; r < n; ++r)
    for (int d = 1; d < n; ++d) plan.send(slot, r, segment * n + r, ahead(plan, r, d));
  for (int r = 0; r < n; ++r)
    for (int d = n - 1; d > 0; --d) {
      const int from = ahead(plan, r, d);
      plan.recv(slot, r, segment * n + from, from);
    }
}

}  // namespace

CollectivePlan two_shot_all_reduce(int world_size, int segments) {
  if (world_size < 1 || segments < 1)
    throw std::invalid_argument("two-shot plan: world_size and segments must be positive; got " +
                                std::to_string(world_size) + " and " + std::to_string(segments));
  CollectivePlan plan;
  plan.collective = Collective::all_reduce;
  plan.algorithm = "two_shot";
  plan.world_size = world_size;
  plan.num_chunks = world_size * segments;
  if (world_size == 1) return plan;
  for (int g = 0; g <= segments; ++g) {
    if (g < segments) shot_to_owners(plan, g, g);
    if (g > 0) shot_from_owners(plan, g, g - 1);
  }
  return plan;
}

CollectivePlan direct_broadcast(int world_size, int root) {
  if (world_size < 1 || root < 0 || root >= world_size)
    throw std::invalid_argument("broadcast plan: root must be a rank; got root " +
                                std::to_string(root) + " and world size " +
                                std::to_string(world_size));
  CollectivePlan plan;
  plan.collective = Collective::broadcast;
  plan.algorithm = "direct";
  plan.world_size = world_size;
  plan.root = root;
  for (int d = 1; d < world_size; ++d) plan.send(0, root, 0, ahead(plan, root, d));
  for (int d = 1; d < world_size; ++d) plan.recv(0, ahead(plan, root, d), 0, root);
  return plan;
}

}  // namespace ringrad
