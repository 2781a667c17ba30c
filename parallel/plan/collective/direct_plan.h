// Collectives in which every rank communicates with every other: few steps, for links that join all
// pairs, as the memory of one host does.
//
// Two-shot all-reduce, n ranks, S bytes, chunk c owned by rank c:
//
//   shot 1: to the owners                          shot 2: from the owners
//   rank 0 . sends c1 > 1, c2 > 2                  rank 0 : sends c0 > 1, c0 > 2
//   rank 1 . sends c0 > 0, c2 > 2                  rank 1 : sends c1 > 0, c1 > 2
//   rank 2 . sends c0 > 0, c1 > 1                  rank 2 : sends c2 > 0, c2 > 1
//   owner c: c = (x0 + x1) + x2                    others : copy
//
// One-shot all-reduce: shot 1 alone, with every rank the owner of everything. The others read a
// rank's input while it writes its sum, so the rank offers a staged copy.
//
//   rank 0 : stages c0, sends the copy > 1, > 2; c0 = (x0 + x1) + x2; ranks 1 and 2 likewise
//
// Two-shot sends as many bytes as the ring, in a number of steps that does not grow with n.
// One-shot halves the steps again and is the fastest for small buffers. The order of addition is
// the same for every element: rank 0, 1, ..., n - 1. This is the `canonical` order: bits depend
// neither on how the buffer is cut, nor on which buffer an element lies in.
//
// README.md says more: "Direct plans: costs".

#pragma once

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Two-shot all-reduce in canonical order. The buffer is first cut into `segments`. Shot 1 of
/// segment g + 1 overlaps shot 2 of segment g, so that finished chunks are copied while they are
/// still in cache.
///
///   chunk of segment g owned by rank r:  g * world_size + r
///   steps: segments + 1
///
/// Throws: std::invalid_argument unless world_size >= 1 and segments >= 1
CollectivePlan two_shot_all_reduce(WorldSize world_size, int segments = 1);

/// One-shot all-reduce in canonical order, one chunk.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan one_shot_all_reduce(WorldSize world_size);

/// The first shot alone: rank r ends with chunk r, in canonical order.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan direct_reduce_scatter(WorldSize world_size);

/// The second shot alone: rank r begins with chunk r.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan direct_all_gather(WorldSize world_size);

/// Broadcast in one step: every rank reads the root's buffer, one chunk.
///
/// Throws: std::invalid_argument unless 0 <= root < world_size
CollectivePlan direct_broadcast(WorldSize world_size, int root);

/// Reduce in one step: the root reads every rank's buffer and adds in canonical order, one chunk.
///
/// Throws: std::invalid_argument unless 0 <= root < world_size
CollectivePlan direct_reduce(WorldSize world_size, int root);

/// Reduce in two steps, in canonical order: rank r adds chunk r, and the root gathers the sums.
/// Suits large buffers: the root receives 2 (n - 1) / n times the bytes of its buffer, not n - 1
/// times.
///
/// Throws: std::invalid_argument unless 0 <= root < world_size
CollectivePlan two_shot_reduce(WorldSize world_size, int root);

/// All-to-all in pairs, so that in every step each rank sends one message and receives one.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan pairwise_all_to_all(WorldSize world_size);

}  // namespace ringrad
