// Collectives on a ring: rank r sends to r + 1 only, and every link is busy in every step.
//
// n ranks, S bytes, chunks of S / n. Chunk c starts at rank c + 1 and is summed along the ring
// until it reaches rank c (reduce-scatter). The finished chunk then makes one more round
// (all-gather).
//
//   n = 3      step 0           step 1              step 2          step 3
//              reduce-scatter                       all-gather
//   rank 0     sends c2 > 1     sends c1 > 1        sends c0 > 1    sends c2 > 1
//   rank 1     sends c0 > 2     sends c2 > 2        sends c1 > 2    sends c0 > 2
//   rank 2     sends c1 > 0     sends c0 > 0        sends c2 > 0    sends c1 > 0
//   c0 is      x1               x1 + x2             (x1 + x2) + x0 at rank 0, then copied
//
// No algorithm sends less, so the ring is bandwidth-optimal; its latency grows with n. Each chunk
// is summed along one chain and then copied, so all ranks end with identical bits. The chain starts
// at a rank that depends on the chunk, so bits do depend on n and on where an element lies in the
// buffer.
//
// README.md says more: "Rings: costs".
//
// Paper: Patarasu and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations".

#pragma once

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Ring all-reduce. The buffer is first cut into `segments`, each of which makes the two rounds
/// above. Segment g + 1 begins its reduce-scatter while segment g is in its all-gather. So a rank
/// always has other work while a neighbour catches up, and a chunk is copied while it is still in
/// cache.
///
///   chunk of segment g that ends at rank r:  g * world_size + r
///   steps: (world_size - 1) * (segments + 1)
///
/// Throws: std::invalid_argument unless world_size >= 1 and segments >= 1
CollectivePlan ring_all_reduce(WorldSize world_size, int segments = 1);

/// Two rings of half the buffer each, one in each direction, for wires that carry both directions
/// at once: rank r sends to r + 1 and to r - 1 in every step.
///
///   chunk that goes upwards and ends at rank r:    r
///   chunk that goes downwards and ends at rank r:  world_size + (world_size - r) % world_size
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan bidirectional_ring_all_reduce(WorldSize world_size);

/// Ring reduce-scatter: rank r ends with chunk r; the other chunks hold partial sums.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan ring_reduce_scatter(WorldSize world_size);

/// Ring all-gather: rank r begins with chunk r.
///
/// Throws: std::invalid_argument unless world_size >= 1
CollectivePlan ring_all_gather(WorldSize world_size);

}  // namespace ringrad
