// Collectives in which every rank talks to every other: few steps, for links that join all pairs,
// as the memory of one host does.
//
// Two-shot all-reduce, n ranks, S bytes, chunk c owned by rank c:
//
//   shot 1: to the owners                          shot 2: from the owners
//   rank 0 . sends c1 > 1, c2 > 2                  rank 0 : sends c0 > 1, c0 > 2
//   rank 1 . sends c0 > 0, c2 > 2                  rank 1 : sends c1 > 0, c1 > 2
//   rank 2 . sends c0 > 0, c1 > 1                  rank 2 : sends c2 > 0, c2 > 1
//   owner c: c = (x0 + x1) + x2                    others : copy
//
//   collective    steps    bytes sent by each rank                additions by each rank
//   all_reduce    2        2 (n - 1) / n * S                      (n - 1) / n * S
//   broadcast     1        root (n - 1) * S, others none          none
//
// The bytes are the ring's, the steps do not grow with n, and the order of addition is the same for
// every element: rank 0, 1, ..., n - 1. This is the `canonical` order: bits do not depend on how
// the buffer is cut, nor on which buffer an element lies in.

#pragma once

#include "parallel/plan/collective_plan.h"

namespace ringrad {

/// Two-shot all-reduce in canonical order. The buffer is first cut into `segments`; shot 1 of
/// segment g + 1 runs beside shot 2 of segment g, so that finished chunks are copied while they are
/// still in cache.
///
///   chunk of segment g owned by rank r:  g * world_size + r
///   steps: segments + 1
///
/// Throws: std::invalid_argument unless world_size >= 1 and segments >= 1
CollectivePlan two_shot_all_reduce(int world_size, int segments = 1);

/// Broadcast in one step: every rank reads the root's buffer, one chunk.
///
/// Throws: std::invalid_argument unless 0 <= root < world_size
CollectivePlan direct_broadcast(int world_size, int root);

}  // namespace ringrad
