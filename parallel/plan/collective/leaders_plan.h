// Collectives in two levels: the ranks of a host combine their data, and one rank of each host, its
// leader, communicates with the other leaders.
//
//     host 0   rank 0 <-- 1  reduce   rank 0 <--> rank 2  all_reduce   rank 0 --> 1  broadcast
//     host 1   rank 2 <-- 3  inside     the leaders alone              rank 2 --> 3  inside
//
//   collective        first                   then, the leaders     last
//   all_reduce        every host: reduce      all_reduce            every host: broadcast
//   reduce_scatter    the same: each rank takes its share of the sum
//   reduce            every host: reduce      reduce                the root's host: broadcast
//   broadcast         its host: broadcast     broadcast             the other hosts: broadcast
//
// This is what a group of two levels does (parallel/comm/blocks/rank_blocks.h); it follows the same
// list of calls. With S bytes and H hosts, a leader sends 2 (H - 1) / H * S between hosts, and the
// other ranks nothing. A hierarchical all-reduce (hierarchical_plan.h) shares that work among the
// ranks of a host, which therefore all need the network.
//
// The order of addition is canonical within each host, then over the hosts.

#pragma once

#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// One call of a collective in two levels.
struct LevelCall {
  enum class Ranks { every_host, roots_host, other_hosts, leaders };

  Ranks ranks;  ///< those that make the call: each host is a group, and the leaders are one
  Collective collective;
  int root = 0;  ///< in the group
};

/// The calls in their order. The root, if there is one, is rank `root` of host `roots_host`.
///
/// REQUIRES: the collective adds, or is broadcast
std::vector<LevelCall> calls_in_levels(Collective collective, int roots_host, int root);

/// The calls as one plan, for hosts of neighbouring ranks.
///
/// REQUIRES: the collective adds, or is broadcast
/// Throws:   std::invalid_argument unless hosts >= 1, ranks_per_host >= 1, and the root is a rank
CollectivePlan leaders_plan(Collective collective, int hosts, int ranks_per_host, int root = 0,
                            int only_rank = kAllRanks);

}  // namespace ringrad
