// Collectives on trees of ranks: few steps, and each rank communicates with few others.
//
// Binomial trees, n ranks, S bytes, one chunk. Neighbouring blocks of ranks join, round by round,
// as drawn in balanced_tree.h; a reduce goes up that tree and a broadcast comes down:
//
//   reduce to rank 0    round 0: 1 > 0   3 > 2      round 1: 2 > 0      x = (x0 + x1) + (x2 + x3)
//   broadcast from 0    round 0: 0 > 2              round 1: 0 > 1   2 > 3
//
// A reduce adds in `tree` order, whatever the root.
//
// Binary tree all-reduce, cut into `segments`: rank r has children 2 r + 1 and 2 r + 2; sums go up
// to rank 0 and come down again, each segment one slot behind the last.
//
//              0               slot   0           1           2           3
//            1   2                    3 > 1 < 4   1 > 0 < 2   0 > 1, 2    1 > 3, 4
//           3 4
//
//   collective            steps                            bytes sent by each rank, at most
//   binomial reduce       ceil(log2 n)                     S
//   binomial broadcast    ceil(log2 n)                     the root: ceil(log2 n) * S
//   tree all_reduce       2 floor(log2 n) + segments - 1   3 S: one parent, two children
//
// Paper: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations
// in MPICH".

#pragma once

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Pipelined all-reduce on the binary tree drawn above. A sum is x_r + left + right.
///
/// Throws: std::invalid_argument unless world_size >= 1 and segments >= 1
CollectivePlan tree_all_reduce(WorldSize world_size, int segments = 1);

/// Throws: std::invalid_argument unless 0 <= root < world_size
CollectivePlan binomial_broadcast(WorldSize world_size, int root);

/// Throws: std::invalid_argument unless 0 <= root < world_size
CollectivePlan binomial_reduce(WorldSize world_size, int root);

}  // namespace ringrad
