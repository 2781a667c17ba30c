#include "ringrad/parallel/plan/collective/ring_plan.h"

#include <vector>

#include "ringrad/parallel/plan/collective/compose.h"

namespace ringrad {
namespace {

// One hop of every chunk of segment g. At hop h, the chunk that rank r sends left its first sender
// h hops ago, so its home is h + `lead` ranks behind r: lead 1 sums towards home, lead 0 starts
// from home.
struct Hop {
  int slot, segment, hop;
};

int chunk_at(const CollectivePlan& plan, Hop at, int rank, int lead) {
  const int n = plan.world_size;
  return at.segment * n + (rank - at.hop - lead + 2 * n) % n;
}

// Each rank sends, then receives. As every rank sends first, one slot per channel is enough.
void reduce_scatter_hop(CollectivePlan& plan, Hop at) {
  const int n = plan.world_size;
  for (int r = 0; r < n; ++r) plan.send(at.slot, r, chunk_at(plan, at, r, 1), (r + 1) % n);
  for (int r = 0; r < n; ++r) {
    const int left = (r + n - 1) % n;
    plan.recv_reduce(at.slot, r, chunk_at(plan, at, left, 1), {left, r});
  }
}

void all_gather_hop(CollectivePlan& plan, Hop at) {
  const int n = plan.world_size;
  for (int r = 0; r < n; ++r) plan.send(at.slot, r, chunk_at(plan, at, r, 0), (r + 1) % n);
  for (int r = 0; r < n; ++r) {
    const int left = (r + n - 1) % n;
    plan.recv(at.slot, r, chunk_at(plan, at, left, 0), left);
  }
}

}  // namespace

CollectivePlan ring_all_reduce(int world_size, int segments) {
  CollectivePlan plan =
      empty_plan(Collective::all_reduce, "ring", world_size, world_size * segments);
  const int hops = world_size - 1;
  int slot = 0;
  // Two segments are in progress: g in its first round while g - 1 is in its second.
  for (int g = 0; g <= segments; ++g)
    for (int h = 0; h < hops; ++h, ++slot) {
      if (g < segments) reduce_scatter_hop(plan, {slot, g, h});
      if (g > 0) all_gather_hop(plan, {slot, g - 1, h});
    }
  return plan;
}

CollectivePlan bidirectional_ring_all_reduce(int world_size) {
  const CollectivePlan ring = ring_all_reduce(world_size);
  CollectivePlan plan =
      empty_plan(Collective::all_reduce, "bidirectional_ring", world_size, 2 * ring.num_chunks);
  std::vector<int> forward, backward;
  for (int r = 0; r < world_size; ++r) {
    forward.push_back(r);
    backward.push_back((world_size - r) % world_size);
  }
  embed(plan, ring, {.ranks = forward});
  embed(plan, ring, {.ranks = backward, .first_chunk = ring.num_chunks});
  order_by_slot(plan);
  return plan;
}

CollectivePlan ring_reduce_scatter(int world_size) {
  CollectivePlan plan = empty_plan(Collective::reduce_scatter, "ring", world_size, world_size);
  for (int h = 0; h < world_size - 1; ++h) reduce_scatter_hop(plan, {h, 0, h});
  return plan;
}

CollectivePlan ring_all_gather(int world_size) {
  CollectivePlan plan = empty_plan(Collective::all_gather, "ring", world_size, world_size);
  for (int h = 0; h < world_size - 1; ++h) all_gather_hop(plan, {h, 0, h});
  return plan;
}

}  // namespace ringrad
