// Recursive halving and doubling: the whole buffer in log n steps, with as many bytes as the ring.
//
// In every halving step a rank and its partner divide the chunks that both still add: each sends
// one half and adds what it receives to the other half. When each rank has one chunk left, the
// steps are reversed and copy (doubling). The distance to the partner doubles from 1 upwards:
//
//   n = 4     halving                              doubling
//             distance 1         distance 2         distance 2         distance 1
//   rank 0    sends c1 c3 > 1    sends c2 > 2       sends c0 > 2       sends c0 c2 > 1
//   rank 1    sends c0 c2 > 0    sends c3 > 3       sends c1 > 3       sends c1 c3 > 0
//   rank 2    sends c1 c3 > 3    sends c0 > 0       sends c2 > 0       sends c0 c2 > 3
//   rank 3    sends c0 c2 > 2    sends c1 > 1       sends c3 > 1       sends c1 c3 > 2
//   c0 is     x0 + x1, x2 + x3   their sum, at 0    at 0 and 2         everywhere
//
// The lower rank's term comes first, so every chunk is summed as ((x0 + x1) + (x2 + x3)) + ...: the
// `tree` order. A sum of 8 leaves in this order is the same whether 1, 2, 4 or 8 ranks share them.
//
// Neighbours exchange first. If each host holds a power of two of ranks, the large halves therefore
// stay inside hosts.
//
// README.md says more: "Halving and doubling".
//
// Paper: Rabenseifner 2004, "Optimization of collective reduction operations"; folding: Thakur,
// Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH".

#pragma once

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Halving, then doubling; one chunk per folded pair or single rank.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan halving_doubling_all_reduce(WorldSize world_size);

/// Rank r ends with chunk r, in `tree` order.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan halving_reduce_scatter(WorldSize world_size);

/// Rank r begins with chunk r.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan doubling_all_gather(WorldSize world_size);

}  // namespace ringrad
