#include "ringrad/parallel/plan/collective/balanced_tree.h"

#include <bit>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

FoldedRanks::FoldedRanks(int world_size)
    : num_nodes(static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)))),
      num_pairs(world_size - num_nodes) {}

std::vector<Join> balanced_tree(int world_size, int root) {
  std::vector<Join> joins;
  std::vector<int> heads = first_integers(world_size);
  int pairs = FoldedRanks(world_size).num_pairs;
  for (int round = 0; heads.size() > 1; ++round) {
    if (pairs == 0) pairs = static_cast<int>(heads.size()) / 2;
    std::vector<int> joined;
    for (int i = 0; i < pairs; ++i) {
      const int left = heads[2 * i], right = heads[2 * i + 1];
      joined.push_back(right == root ? right : left);
      joins.push_back({round, left, right, joined.back()});
    }
    joined.insert(joined.end(), heads.begin() + 2 * pairs, heads.end());
    heads = std::move(joined);
    pairs = 0;
  }
  return joins;
}

}  // namespace ringrad
