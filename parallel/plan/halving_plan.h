// Recursive halving and doubling: all of the buffer in log n steps, with the ring's bytes.
//
// In every step a rank gives away half of the chunks it is still adding, to a partner that gives it
// the other half (halving). When each rank has one chunk left, the way back copies (doubling). The
// distance to the partner doubles from 1 upwards:
//
//   n = 4     halving                              doubling
//             distance 1         distance 2         distance 2         distance 1
//   rank 0    sends c1 c3 > 1    sends c2 > 2       sends c0 > 2       sends c0 c2 > 1
//   rank 1    sends c0 c2 > 0    sends c3 > 3       sends c1 > 3       sends c1 c3 > 0
//   rank 2    sends c1 c3 > 3    sends c0 > 0       sends c2 > 0       sends c0 c2 > 3
//   rank 3    sends c0 c2 > 2    sends c1 > 1       sends c3 > 1       sends c1 c3 > 2
//   c0 is     x0 + x1, x2 + x3   their sum, at 0    at 0 and 2         everywhere
//
//   collective        steps       bytes sent by each rank    additions by each rank
//   all_reduce        2 log2 n    2 (n - 1) / n * S          (n - 1) / n * S
//   reduce_scatter      log2 n      (n - 1) / n * S          (n - 1) / n * S
//   all_gather          log2 n      (n - 1) / n * S          none
//
// The lower rank's term comes first, so every chunk is summed as ((x0 + x1) + (x2 + x3)) + ...: the
// `tree` order. If 8 leaves are summed so, it does not matter whether 1, 2, 4 or 8 ranks share them.
//
// Neighbours talk first: where hosts hold a power of two of ranks, the large halves stay inside them.
//
// If n is no power of two, some pairs of ranks are folded first and unfolded last (balanced_tree.h):
// the second rank of a pair hands all it has to the first and waits for the result. That costs two
// steps, and for those ranks up to 2 S bytes more.
//
// Paper: Rabenseifner 2004, "Optimization of collective reduction operations"; folding: Thakur,
// Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH".

#pragma once

#include "parallel/plan/collective_plan.h"

namespace ringrad {

/// Halving, then doubling; one chunk per folded pair or single rank.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan halving_doubling_all_reduce(int world_size);

/// Rank r ends with chunk r, in `tree` order.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan halving_reduce_scatter(int world_size);

/// Rank r begins with chunk r.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan doubling_all_gather(int world_size);

}  // namespace ringrad
