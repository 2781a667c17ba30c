// The balanced tree over the ranks: which rank represents which block when neighbours are joined,
// round by round.
//
//   8 ranks                               6 ranks = 4 + 2: two pairs are folded first
//   round 0   01    23    45    67        round 0   01    23   4   5
//   round 1     0123        4567          round 1     0123      45
//   round 2       01234567                round 2       012345
//
// With n = p + e, p a power of two and 0 <= e < p, the first 2 e ranks are folded into e pairs.
// That leaves p nodes, for algorithms that need a power of two. Their sums are those of the `tree`
// order: ((x0 + x1) + (x2 + x3)) + (x4 + x5).

#pragma once

#include <vector>

namespace ringrad {

/// Maps `world_size` ranks to nodes, whose number is a power of two: first pairs, then single
/// ranks. A pair's first rank represents it.
struct FoldedRanks {
  explicit FoldedRanks(int world_size);

  int num_nodes;  ///< a power of two
  int num_pairs;

  int rank_of(int node) const { return node < num_pairs ? 2 * node : node + num_pairs; }
  int node_of(int rank) const { return rank < 2 * num_pairs ? rank / 2 : rank - num_pairs; }
};

/// Joins two neighbouring blocks of ranks. The ranks `left` and `right` represent the two blocks;
/// `head`, one of the two, represents the joined block.
struct Join {
  int round;
  int left, right;
  int head;

  int other() const { return head == left ? right : left; }
};

/// All joins of the balanced tree, round by round. A block's head is the root if the block contains
/// it, else the block's first rank.
///
/// REQUIRES: 0 <= root < world_size
std::vector<Join> balanced_tree(int world_size, int root = 0);

}  // namespace ringrad
