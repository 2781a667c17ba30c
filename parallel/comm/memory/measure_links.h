// What messages between the ranks of a group cost, found by running plans whose costs are known.
//
// With R the ring's all_reduce and G the ring's all_gather, of n ranks (plan/predict/cost.h):
//
//     alpha            = (R(0) - G(0)) / (n - 1)                      as many more messages
//     beta             = (G(S) - G(0)) / ((n-1)/n S)
//     2 beta + gamma   = (R(S) - R(0)) / ((n-1)/n S)
//
// What is fitted is the cost of everything that a message needs, the rank's own instructions and
// the ranks' sharing of processors included. On CPUs it takes about a millisecond with a few ranks,
// and a tenth of a second with 64, whose plans have to be proved. Ranks without the memory for it
// (128 KiB on CPUs, 8 MiB on GPUs) do without, and all messages count as equal.

#pragma once

#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

/// Has the session's programs know the links of the tensors that `operation` begins with. The first
/// time all ranks measure them together and take the slowest rank's times. On CPUs, groups of this
/// process that are alike (as many ranks, all threads or all processes) share what was measured.
/// The operation's deadline begins anew after it.
///
/// REQUIRES: all ranks call it in the same operation
/// Throws:   CollectiveError
void share_links(RankSession& session, PlanRunner& runner, Operation& operation);

}  // namespace ringrad
