// All-reduce over hosts of several ranks each: most bytes stay inside the hosts, where links are
// fast.
//
// H hosts of m ranks; rank h * m + l has index l within host h; S bytes, m shares of H chunks:
//
//   1  inside each host     reduce-scatter: rank l of the host ends with the host's sum of share l
//   2  between the hosts    ranks l of all hosts: ring all-reduce of share l, chunk by chunk
//   3  inside each host     all-gather: every rank gets all shares
//
//              host 0     host 1
//   share 0    rank 0 --- rank 2        phase 2 for H = m = 2: one ring per share, side by side
//   share 1    rank 1 --- rank 3
//
//   phase    steps        bytes sent by each rank          over
//   1, 3     1 each       (m - 1) / m * S each             links inside a host
//   2        2 (H - 1)    2 (H - 1) / H * S / m            links between hosts
//
// A flat ring sends nearly 2 S over the links between hosts; this sends nearly 2 S / m per rank.
//
// Inside a host all ranks communicate with each other (direct_plan.h), which suits a host's links.

#pragma once

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Throws: std::invalid_argument unless hosts >= 1 and ranks_per_host >= 1
CollectivePlan hierarchical_all_reduce(int hosts, int ranks_per_host, int only_rank = kAllRanks);

}  // namespace ringrad
