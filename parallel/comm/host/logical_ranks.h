// Logical ranks: the ranks that a program is written for, mapped to however many processes or GPUs
// there are. A job that continues on fewer of them computes the same numbers, bit for bit.
//
//     8 logical ranks     on 1 physical rank     on 2                 on 4
//                         0 | 0 1 2 3 4 5 6 7    0 | 0 1 2 3          0 | 0 1     2 | 4 5
//                                                1 | 4 5 6 7          1 | 2 3     3 | 6 7
//
//     run_logical_ranks(comm, 8, [](Communicator& logical) { train(logical); });
//
// Each logical rank is a thread of its physical rank and has its own replica, optimizer state and
// eighth of every batch. The logical ranks form one group, whose collectives combine values within
// each physical rank first (rank_blocks.h).
//
// Guarantee: sums over the logical ranks are in `tree` order (plan/collective/sum_order.h),
// ((x0 + x1) + (x2 + x3)) + ..., whatever the number and kind of physical ranks and the order of
// `comm`. All results are therefore the same on 1, 2, 4 or 8 physical ranks, provided that each
// logical rank's own results are: on processors with the same instructions, or GPUs of one kind.
//
// README.md says more: "Why logical ranks".
//
// Paper: Li et al., SC 2023, "EasyScale: Elastic Training with Consistent Accuracy and Improved
// Utilization on GPUs"

#pragma once

#include <chrono>
#include <functional>

#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

struct LogicalRanksOptions {
  /// The longest that a call waits for the other logical ranks of this physical rank. It should
  /// exceed the deadline of `comm`, so that `comm` is first to find out which other rank is late.
  std::chrono::nanoseconds deadline = std::chrono::seconds(62);
  /// Size of each rank's OpenMP team. It is not a share of the processors, because the bits of some
  /// products depend on it.
  int num_threads = 1;
};

/// Calls body(logical) for this physical rank's share of the logical ranks, each on its own thread,
/// and returns when they have returned. Physical rank r of R runs the logical ranks
/// [r n / R, (r + 1) n / R), which make their tensors on the caller's device. All ranks of `comm`
/// must call it. `comm` is unchanged and is free for other calls afterwards.
///
/// A logical communicator has all collectives and split(); split groups also add in tree order. It
/// has no send, recv or shrink: those throw CollectiveError. Sums are slower where n / R is not a
/// power of two.
///
/// Throws: ValueError unless num_logical is a multiple of world_size in [1, kMaxRanks], and
///         num_threads > 0; CollectiveError unless all ranks ask for the same number; exceptions
///         from `body`, as run_ranks. A failure of one logical rank ends the calls of all with an
///         error that names it
void run_logical_ranks(Communicator& comm, int num_logical,
                       const std::function<void(Communicator&)>& body,
                       const LogicalRanksOptions& options = {}, Where where = Where::current());

}  // namespace ringrad
