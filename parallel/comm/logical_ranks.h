// Logical ranks: the ranks that a program is written for, on as many processes or GPUs as there are. A job that goes
// on with fewer of them computes the same numbers, bit by bit.
//
//     8 logical ranks     on 1 physical rank     on 2                 on 4
//                         0 | 0 1 2 3 4 5 6 7    0 | 0 1 2 3          0 | 0 1     2 | 4 5
//                                                1 | 4 5 6 7          1 | 2 3     3 | 6 7
//
//     run_logical_ranks(comm, 8, [](Communicator& logical) { train(logical); });
//
// Each logical rank is a thread of its physical one, with everything of its own: a replica, optimizer state, its
// eighth of every batch. Together they are one group, whose collectives meet inside a physical rank first
// (rank_blocks.h).
//
// Guarantee: sums are made in `tree` order (plan/sum_order.h) over the logical ranks, ((x0 + x1) + (x2 + x3)) + ...,
// whatever the number of physical ranks, what they are, and the order of `comm`; so all results are the same for 1,
// 2, 4 or 8 of them, if a rank's own are: on processors that have the same instructions, or on GPUs of one kind.
//
// Why not as many ranks as there are, adding in tree order? The order of addition between ranks is only the upper
// part of the tree. Below it, one rank sums over its part of the batch in every matrix product, convolution and
// batch norm, in an order that depends on the size of the part: 64 samples are not added as eight times 8. After one
// step of a small ConvNet on 16 images, data parallel in tree order, a quarter of its second layer's weights differ
// in the last bits between one rank and two. Fixed is only what a logical rank computes.
//
// Paper: Li et al., SC 2023, "EasyScale: Elastic Training with Consistent Accuracy and Improved Utilization on GPUs"

#pragma once

#include <chrono>
#include <functional>

#include "parallel/comm/communicator.h"

namespace ringrad {

struct LogicalRanksOptions {
  /// The longest that a call waits for the other ranks of this physical one. It should be longer than the deadline of
  /// `comm`, which is to find out first who is late elsewhere.
  std::chrono::nanoseconds deadline = std::chrono::seconds(62);
  /// Each rank's OpenMP team. Not a share of the processors, since some products' bits depend on it.
  int num_threads = 1;
};

/// Calls body(logical) for this physical rank's share of the logical ranks, on a thread each, and returns when they
/// have returned. Physical rank r of R has the logical ranks [r n / R, (r + 1) n / R), which make their tensors
/// where the caller does. All ranks of `comm` call it, which stays as it is, and is free again afterwards.
///
/// A logical communicator has all collectives, and split; also groups of parts add in tree order. It has no send and
/// recv, and cannot shrink: those throw CollectiveError. Where n / R is not a power of two, sums are slower.
///
/// Throws: ValueError unless num_logical is a multiple of world_size in [1, kMaxRanks], and num_threads > 0;
///         CollectiveError unless all ranks ask for as many; what `body` throws, as run_ranks. A failure of one logical
///         rank ends the calls of all with an error that names it
void run_logical_ranks(Communicator& comm, int num_logical,
                       const std::function<void(Communicator&)>& body,
                       const LogicalRanksOptions& options = {}, Where where = Where::current());

}  // namespace ringrad
