#include "ringrad/parallel/plan/collective/ring_plan.h"

namespace ringrad {
namespace {

// One hop of every chunk of a ring that goes upwards or, with direction -1, downwards. At hop h,
// the chunk that a rank sends left its first sender h hops ago, so its home is h + `lead` ranks
// behind: lead 1 sums towards home, lead 0 starts from home.
struct Hop {
  int slot, hop;
  int first_chunk = 0;
  int direction = 1;
};

int to_right(const CollectivePlan& plan, Hop at, int rank) {
  return (rank + at.direction + plan.world_size) % plan.world_size;
}
int to_left(const CollectivePlan& plan, Hop at, int rank) {
  return (rank - at.direction + plan.world_size) % plan.world_size;
}

int chunk_at(const CollectivePlan& plan, Hop at, int rank, int lead) {
  const int n = plan.world_size;
  return at.first_chunk + (at.direction * rank - at.hop - lead + 3 * n) % n;
}

// Each rank sends, then receives. As every rank sends first, one slot per channel is enough.
void sends(CollectivePlan& plan, Hop at, int lead) {
  for (int r : plan.ranks())
    plan.send(at.slot, r, chunk_at(plan, at, r, lead), to_right(plan, at, r));
}

void sums(CollectivePlan& plan, Hop at) {
  for (int r : plan.ranks()) {
    const int left = to_left(plan, at, r);
    plan.recv_reduce(at.slot, r, chunk_at(plan, at, left, 1), {left, r});
  }
}

void copies(CollectivePlan& plan, Hop at) {
  for (int r : plan.ranks()) {
    const int left = to_left(plan, at, r);
    plan.recv(at.slot, r, chunk_at(plan, at, left, 0), left);
  }
}

void reduce_scatter_hop(CollectivePlan& plan, Hop at) {
  sends(plan, at, 1);
  sums(plan, at);
}

void all_gather_hop(CollectivePlan& plan, Hop at) {
  sends(plan, at, 0);
  copies(plan, at);
}

}  // namespace

CollectivePlan ring_all_reduce(WorldSize world_size, int segments) {
  CollectivePlan plan =
      empty_plan(Collective::all_reduce, "ring", world_size, world_size * segments);
  const int hops = world_size - 1;
  int slot = 0;
  // Two segments are in progress: g in its first round while g - 1 is in its second.
  for (int g = 0; g <= segments; ++g)
    for (int h = 0; h < hops; ++h, ++slot) {
      if (g < segments) reduce_scatter_hop(plan, {slot, h, g * world_size});
      if (g > 0) all_gather_hop(plan, {slot, h, (g - 1) * world_size});
    }
  return plan;
}

CollectivePlan bidirectional_ring_all_reduce(WorldSize world_size) {
  CollectivePlan plan =
      empty_plan(Collective::all_reduce, "bidirectional_ring", world_size, 2 * world_size);
  const int hops = world_size - 1;
  for (int slot = 0; slot < 2 * hops; ++slot) {
    const bool adds = slot < hops;
    const Hop up{slot, slot % hops}, down{slot, slot % hops, world_size, -1};
    for (const Hop& at : {up, down}) sends(plan, at, adds ? 1 : 0);
    for (const Hop& at : {up, down}) adds ? sums(plan, at) : copies(plan, at);
  }
  return plan;
}

CollectivePlan ring_reduce_scatter(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::reduce_scatter, "ring", world_size, world_size);
  for (int h = 0; h < world_size - 1; ++h) reduce_scatter_hop(plan, {h, h});
  return plan;
}

CollectivePlan ring_all_gather(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::all_gather, "ring", world_size, world_size);
  for (int h = 0; h < world_size - 1; ++h) all_gather_hop(plan, {h, h});
  return plan;
}

}  // namespace ringrad
