// What messages between the ranks of a group cost, found by sending some.
//
// On CPUs, ranks 0 and 1 measure for all: half of the time of a message there and back is alpha,
// and the time to read and to add data of the other rank gives beta and gamma
// (plan/predict/cost.h). It takes a millisecond, however many ranks there are.
//
// On GPUs, plans are run whose costs are known. With R the ring's all_reduce and G the ring's
// all_gather, of n ranks:
//
//     alpha            = (R(0) - G(0)) / (n - 1)                      as many more messages
//     beta             = (G(S) - G(0)) / ((n-1)/n S)
//     2 beta + gamma   = (R(S) - R(0)) / ((n-1)/n S)
//
// What is fitted there is the cost of everything that a message needs, the rank's own instructions
// included. Ranks without the memory for it (128 KiB on CPUs, 8 MiB on GPUs) do without, and all
// messages count as equal.

#pragma once

#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

/// Has the session's programs know the links of the tensors that `operation` begins with. The first
/// time all ranks measure them together, and all take the same. On CPUs, groups of this process
/// that are alike (as many ranks, all threads or all processes) share what was measured.
/// The operation's deadline begins anew after it.
///
/// REQUIRES: all ranks call it in the same operation
/// Throws:   CollectiveError
void share_links(RankSession& session, PlanRunner& runner, Operation& operation);

}  // namespace ringrad
