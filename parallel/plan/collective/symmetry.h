// Symmetry: every rank of a plan does what rank 0 does, with ranks and chunks renamed.
//
// In a ring of n ranks, rank r's list is rank 0's with r added to every rank and every chunk,
// modulo n. What then holds for rank 0 holds for all, and a proof needs one list instead of n
// (symmetric_proof.h).
//
//   rank 0   send chunk 3 -> 1, recv_reduce chunk 2 <- 3 0, ...      4 ranks
//   rank 1   send chunk 0 -> 2, recv_reduce chunk 3 <- 0 1, ...      rank 0's, all numbers + 1
//
// The renamings are a group with one member for each rank r, which takes rank 0 to r. It adds the
// digits of r, each modulo its base: one digit turns a ring, binary digits flip bits as halving and
// doubling do, and two digits are a rank's host and its place there. Nothing is believed: the list
// of every rank is compared.

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// Makes a plan with the steps of one rank alone, or of all for kAllRanks.
using PlanOfRank = std::function<CollectivePlan(int only_rank)>;

/// Steps in a row that differ only in their chunks, which ascend: those of a message, for example.
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

  /// The one that takes rank 0 to r, by r. The one of rank q, and then that of r, are together the
  /// one of to[r].ranks[q].
  std::vector<Renaming> to;

  /// Rank 0's list. Another rank's is the same, renamed, but for the order of chunks in a group,
  /// which ascend at every rank, and of the terms of a sum.
  std::vector<StepGroup> list;

  /// (list) True if every rank has the terms in ascending order.
  std::vector<bool> ascending;
};

/// The symmetry of a plan; nothing if it has none of those above, leaves a chunk unused, or has so
/// many ranks that their renamings would take much memory.
///
/// REQUIRES: first = plan_of(0) has the right shape (plan_shape_check), and steps of rank 0 alone
std::optional<Symmetry> find_symmetry(const CollectivePlan& first, const PlanOfRank& plan_of);

}  // namespace ringrad
