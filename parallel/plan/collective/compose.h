// Plans made of smaller plans.
//
// Renaming makes a plan for few ranks and chunks a part of a larger one: its rank r becomes
// ranks[r], its chunk c a block of chunks, and its slots begin later. Parts can be combined in two
// ways:
//
//   one after the other    a hierarchical all-reduce is a reduce-scatter inside each host, then an
//                          all-reduce between hosts, then an all-gather inside each host
//   side by side           a pipelined chain is one chain per segment of the buffer, each one slot
//                          behind the last:
//
//     slot         0        1        2        3
//     segment 0    0 > 1    1 > 2    2 > 3
//     segment 1             0 > 1    1 > 2    2 > 3

#pragma once

#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// The place of a part in a larger plan.
struct Placement {
  std::vector<int> ranks;    ///< (part.world_size)
  int first_chunk = 0;       ///< chunk c becomes the `chunks_per_chunk` chunks that begin at
  int chunks_per_chunk = 1;  ///<   first_chunk + c * chunks_per_chunk
  int first_slot = 0;
};

/// Appends the steps of `part`. A block of chunks stays one message.
void embed(CollectivePlan& plan, const CollectivePlan& part, const Placement& placement);

/// Orders the steps of side-by-side parts by slot and, within a slot, sends first, so that no rank
/// waits for one part while it could send for another.
///
/// REQUIRES: no send depends on a receive of the same slot
void order_by_slot(CollectivePlan& plan);

/// Repeats `one` for each of `segments` equal parts of the buffer, each one slot after the last.
///
/// REQUIRES: in `one`, no rank sends to the same peer, or receives from it, in more than one slot
/// Throws:   std::invalid_argument unless segments >= 1
CollectivePlan pipelined(const CollectivePlan& one, int segments);

}  // namespace ringrad
