// Measures the cost of messages between the ranks of a group.
//
// On CPUs, ranks 0 and 1 measure for all: half of the time of a message there and back is alpha,
// and the time to read and to add data of the other rank gives beta and gamma
// (plan/predict/cost.h). It takes a millisecond, however many ranks there are.
//
// On GPUs, the ranks run plans whose costs have known formulas. R is the time of the ring's
// all_reduce over n ranks, and G of the ring's all_gather:
//
//     alpha            = (R(0) - G(0)) / (n - 1)                      as many more messages
//     beta             = (G(S) - G(0)) / ((n-1)/n S)
//     2 beta + gamma   = (R(S) - R(0)) / ((n-1)/n S)
//
// The fit on GPUs covers all costs of a message, including the rank's own instructions. If a rank
// lacks the memory for the measurement (128 KiB on CPUs, 8 MiB on GPUs), none is made, and all
// messages count as equal.

#pragma once

#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/comm/memory/rank_session.h"

namespace ringrad {

/// Gives the session's programs the costs of links between tensors on the device of `operation`.
/// The first time, all ranks measure them together, and all take the same values. On CPUs, similar
/// groups of this process (as many ranks, all threads or all processes) share one measurement. The
/// operation's deadline begins anew afterwards.
///
/// REQUIRES: all ranks call it in the same operation
/// Throws:   CollectiveError
void share_links(RankSession& session, PlanRunner& runner, Operation& operation);

}  // namespace ringrad
