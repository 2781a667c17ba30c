// Symmetry: every rank of a plan does what rank 0 does, with ranks and chunks renamed.
//
// In a ring of n ranks, rank r's list is rank 0's with r added to every rank and every chunk,
// modulo n. What then holds for rank 0 holds for all, and a proof needs one list instead of n
// (symmetric_proof.h).
//
//   rank 0   send chunk 3 -> 1, recv_reduce chunk 2 <- 3 0, ...      4 ranks
//   rank 1   send chunk 0 -> 2, recv_reduce chunk 3 <- 0 1, ...      rank 0's, all numbers + 1
//
// The renamings form a group. For each rank r one renaming takes rank 0 to r: it adds r's digits to
// those of the renamed number, each modulo its base. One digit turns a ring; binary digits flip
// bits, as halving and doubling do; two digits are a rank's host and its index within the host.
// Symmetry is not assumed: find_symmetry compares the list of every rank.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Makes a plan with the steps of one rank alone, or of all for kAllRanks.
using PlanOfRank = std::function<CollectivePlan(int only_rank)>;

/// Consecutive steps that differ only in their chunks, which ascend, such as the sends of one
/// message.
struct StepGroup {
  int step;
  StepOp op;
  std::vector<int> chunks;
  FewInts peers;
};

struct Symmetry {
  /// What each number becomes.
  struct Renaming {
    std::vector<int> ranks;   ///< (world_size)
    std::vector<int> chunks;  ///< (num_chunks)
  };

  /// to[r] is the renaming that takes rank 0 to r. Applying to[q] and then to[r] has the effect of
  /// to[to[r].ranks[q]].
  std::vector<Renaming> to;

  /// Rank 0's list. Every other rank's list is the same, renamed, except for two orders: chunks in
  /// a group ascend at every rank, and the terms of a sum may be in another order.
  std::vector<StepGroup> list;

  /// (list) True if every rank has the terms in ascending order.
  std::vector<bool> ascending;
};

/// The symmetry of a plan. Returns nothing if the plan has none of the symmetries above, leaves a
/// chunk unused, or has so many ranks that their renamings would take much memory.
///
/// REQUIRES: first = plan_of(0) passes plan_shape_check and has only steps of rank 0
std::optional<Symmetry> find_symmetry(const CollectivePlan& first, const PlanOfRank& plan_of);

}  // namespace ringrad
