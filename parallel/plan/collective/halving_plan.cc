#include "ringrad/parallel/plan/collective/halving_plan.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ringrad/parallel/plan/collective/balanced_tree.h"

namespace ringrad {
namespace {

using Chunks = std::vector<int>;
enum class Way { halving, doubling };  // halving: towards the sums, adding; doubling: back, copying

// Writes a plan phase by phase.
class Phases {
 public:
  // Chunk c is summed at, or begins at, node home[c].
  Phases(CollectivePlan& plan, const FoldedRanks& nodes, Chunks home)
      : plan_(plan), nodes_(nodes), home_(std::move(home)) {}

  void halve() {
    for (int distance = 1; distance < nodes_.num_nodes; distance *= 2)
      exchange(distance, Way::halving);
  }

  void double_up() {
    for (int distance = nodes_.num_nodes / 2; distance > 0; distance /= 2)
      exchange(distance, Way::doubling);
  }

  // The second rank of each pair gives chunks(second) to the first, or gets them back.
  template <class ChunksOf>
  void fold(ChunksOf chunks, Way way) {
    for (int pair = 0; pair < nodes_.num_pairs; ++pair)
      message(2 * pair + 1, 2 * pair, chunks(2 * pair + 1), way);
    if (nodes_.num_pairs > 0) ++slot_;
  }

  template <class ChunksOf>
  void unfold(ChunksOf chunks) {
    for (int pair = 0; pair < nodes_.num_pairs; ++pair)
      message(2 * pair, 2 * pair + 1, chunks(2 * pair + 1), Way::doubling);
    if (nodes_.num_pairs > 0) ++slot_;
  }

 private:
  void exchange(int distance, Way way) {
    for (int node = 0; node < nodes_.num_nodes; ++node) {
      const int rank = nodes_.rank_of(node), partner = nodes_.rank_of(node ^ distance);
      if (!plan_.holds(rank)) continue;
      const Chunks mine = chunks_of(node, distance), theirs = chunks_of(node ^ distance, distance);
      send(rank, partner, way == Way::halving ? theirs : mine);
      receive(rank, partner, way == Way::halving ? mine : theirs, way);
    }
    ++slot_;
  }

  // The chunks that a node still has after halving at `distance`, and gives away when doubling. The
  // node began with all chunks, and each distance d fixes one more bit of their homes.
  Chunks chunks_of(int node, int distance) const {
    Chunks chunks;
    for (int c = 0; c < plan_.num_chunks; ++c)
      if (home_[c] % (2 * distance) == node % (2 * distance)) chunks.push_back(c);
    return chunks;
  }

  void message(int from, int to, const Chunks& chunks, Way way) {
    send(from, to, chunks);
    receive(to, from, chunks, way);
  }

  void send(int rank, int to, const Chunks& chunks) {
    for (int c : chunks) plan_.send(slot_, rank, c, to);
  }

  void receive(int rank, int from, const Chunks& chunks, Way way) {
    for (int c : chunks)
      if (way == Way::halving)
        plan_.recv_reduce(slot_, rank, c, {std::min(rank, from), std::max(rank, from)});
      else
        plan_.recv(slot_, rank, c, from);
  }

  CollectivePlan& plan_;
  const FoldedRanks nodes_;
  const Chunks home_;  // (num_chunks)
  int slot_ = 0;
};

// The home of chunk c is the node of rank c.
Chunks home_of_owners(const FoldedRanks& nodes, int world_size) {
  Chunks home;
  for (int rank = 0; rank < world_size; ++rank) home.push_back(nodes.node_of(rank));
  return home;
}

Chunks all_but(int excluded, int num_chunks) {
  Chunks chunks;
  for (int c = 0; c < num_chunks; ++c)
    if (c != excluded) chunks.push_back(c);
  return chunks;
}

}  // namespace

CollectivePlan halving_doubling_all_reduce(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::all_reduce, "halving_doubling", world_size);
  const FoldedRanks nodes(world_size);
  plan.num_chunks = nodes.num_nodes;
  const Chunks home = first_integers(plan.num_chunks);
  const auto everything = [&](int) { return home; };
  Phases phases(plan, nodes, home);
  phases.fold(everything, Way::halving);
  phases.halve();
  phases.double_up();
  phases.unfold(everything);
  return plan;
}

CollectivePlan halving_reduce_scatter(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::reduce_scatter, "halving", world_size, world_size);
  const FoldedRanks nodes(world_size);
  Phases phases(plan, nodes, home_of_owners(nodes, world_size));
  phases.fold([&](int) { return first_integers(world_size); }, Way::halving);
  phases.halve();
  phases.unfold([](int second) { return Chunks{second}; });
  return plan;
}

CollectivePlan doubling_all_gather(WorldSize world_size) {
  CollectivePlan plan = empty_plan(Collective::all_gather, "doubling", world_size, world_size);
  const FoldedRanks nodes(world_size);
  Phases phases(plan, nodes, home_of_owners(nodes, world_size));
  phases.fold([](int second) { return Chunks{second}; }, Way::doubling);
  phases.double_up();
  phases.unfold([&](int second) { return all_but(second, world_size); });
  return plan;
}

}  // namespace ringrad
