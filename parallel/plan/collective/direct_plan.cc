#include "ringrad/parallel/plan/collective/direct_plan.h"

namespace ringrad {
namespace {

// At distance d every rank sends to the rank d ahead, so no two ranks have the same first target.
int ahead(const CollectivePlan& plan, int rank, int distance) {
  return (rank + distance) % plan.world_size;
}

void shot_to_owners(CollectivePlan& plan, int slot, int segment) {
  const int n = plan.world_size;
  for (int r : plan.ranks())
    for (int d = 1; d < n; ++d)
      plan.send(slot, r, segment * n + ahead(plan, r, d), ahead(plan, r, d));
  for (int r : plan.ranks())
    plan.recv_reduce(slot, r, segment * n + r, first_integers(plan.world_size));
}

void shot_from_owners(CollectivePlan& plan, int slot, int segment) {
  const int n = plan.world_size;
  for (int r : plan.ranks())
    for (int d = 1; d < n; ++d) plan.send(slot, r, segment * n + r, ahead(plan, r, d));
  for (int r : plan.ranks())
    for (int d = n - 1; d > 0; --d) {
      const int from = ahead(plan, r, d);
      plan.recv(slot, r, segment * n + from, from);
    }
}

}  // namespace

CollectivePlan one_shot_all_reduce(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::all_reduce, "one_shot", world_size);
  if (world_size == 1) return plan;
  for (int r : plan.ranks()) {
    plan.stage(0, r, 0);
    for (int d = 1; d < world_size; ++d) plan.send_staged(0, r, 0, ahead(plan, r, d));
    plan.recv_reduce(0, r, 0, first_integers(plan.world_size));
  }
  return plan;
}

CollectivePlan two_shot_all_reduce(WorldSize world_size, int segments) {
  CollectivePlan plan =
      empty_plan(Collective::all_reduce, "two_shot", world_size, world_size * segments);
  if (world_size == 1) return plan;
  for (int g = 0; g <= segments; ++g) {
    if (g < segments) shot_to_owners(plan, g, g);
    if (g > 0) shot_from_owners(plan, g, g - 1);
  }
  return plan;
}

CollectivePlan direct_reduce_scatter(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::reduce_scatter, "direct", world_size, world_size);
  if (world_size > 1) shot_to_owners(plan, 0, 0);
  return plan;
}

CollectivePlan direct_all_gather(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::all_gather, "direct", world_size, world_size);
  shot_from_owners(plan, 0, 0);
  return plan;
}

CollectivePlan direct_broadcast(WorldSize world_size, int root) {
  CollectivePlan plan = empty_rooted_plan(Collective::broadcast, "direct", world_size, root);
  for (int d = 1; d < world_size; ++d) plan.send(0, root, 0, ahead(plan, root, d));
  for (int d = 1; d < world_size; ++d) plan.recv(0, ahead(plan, root, d), 0, root);
  return plan;
}

CollectivePlan direct_reduce(WorldSize world_size, int root) {
  CollectivePlan plan = empty_rooted_plan(Collective::reduce, "direct", world_size, root);
  if (world_size == 1) return plan;
  for (int d = 1; d < world_size; ++d) plan.send(0, ahead(plan, root, d), 0, root);
  plan.recv_reduce(0, root, 0, first_integers(plan.world_size));
  return plan;
}

CollectivePlan two_shot_reduce(WorldSize world_size, int root) {
  CollectivePlan plan = empty_rooted_plan(Collective::reduce, "two_shot", world_size, root);
  if (world_size == 1) return plan;
  plan.num_chunks = world_size;
  shot_to_owners(plan, 0, 0);
  for (int d = 1; d < world_size; ++d) {
    const int from = ahead(plan, root, d);
    plan.send(1, from, from, root);
    plan.recv(1, root, from, from);
  }
  return plan;
}

CollectivePlan pairwise_all_to_all(WorldSize world_size) {
  CollectivePlan plan =
      empty_plan(Collective::all_to_all, "pairwise", world_size, world_size * world_size);
  for (int d = 1; d < world_size; ++d)
    for (int r : plan.ranks()) {
      const int to = ahead(plan, r, d), from = ahead(plan, r, world_size - d);
      plan.send(d - 1, r, r * world_size + to, to);
      plan.recv(d - 1, r, from * world_size + r, from);
    }
  return plan;
}

}  // namespace ringrad
