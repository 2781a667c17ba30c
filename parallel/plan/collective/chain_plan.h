// Collectives on a line of ranks, pipelined: each rank passes a segment on while it receives the
// next.
//
// All-reduce, n ranks, S bytes, k segments; sums run up the line, results run back down:
//
//   n = 3, k = 2     slot   0          1          2          3          4
//   segment 0               0 > 1      1 > 2      2 > 1      1 > 0
//   segment 1                          0 > 1      1 > 2      2 > 1      1 > 0
//
//   collective    steps               bytes sent by each rank, at most    additions, at most
//   all_reduce    2 (n - 1) + k - 1   2 S, S in each direction            S
//   broadcast       (n - 1) + k - 1     S                                 none
//   reduce          (n - 1) + k - 1     S                                 S
//
// The number of steps grows with n, but with many segments the time tends to that of S bytes over
// one link, on links that carry both directions at once. No other all-reduce adds in `canonical`
// order, x0 + x1 + ... + x(n-1), at that cost: bits depend neither on k nor on an element's place.
//
// Broadcast and reduce run along the ranks root, root + 1, ... around to root - 1. A reduce ends at
// the root, so it is canonical only for the root n - 1.

#pragma once

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Throws: std::invalid_argument unless world_size >= 1 and segments >= 1
CollectivePlan chain_all_reduce(WorldSize world_size, int segments = 1);

/// Throws: std::invalid_argument unless 0 <= root < world_size and segments >= 1
CollectivePlan chain_broadcast(WorldSize world_size, int root, int segments = 1);

/// Throws: std::invalid_argument unless 0 <= root < world_size and segments >= 1
CollectivePlan chain_reduce(WorldSize world_size, int root, int segments = 1);

}  // namespace ringrad
