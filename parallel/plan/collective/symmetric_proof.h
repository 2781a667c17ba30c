// The proof of a symmetric plan (symmetry.h): one list is run instead of n.
//
// All ranks take their steps in step, each its first, then each its second. As replay.h explains,
// one order of running covers all. What happens at rank r is what happens at rank 0, renamed, so it
// suffices to keep track of rank 0:
//
//   channels   a receive from p meets a send of p's list: the send of rank 0's list that goes to
//              the rank that p's renaming takes to 0
//   clocks     what rank 0 has heard of each rank (happens_before.h); p's are rank 0's, renamed
//   values     a contribution, or a sum by the step and the rank that made it, with the set of
//              contributions in it; values of p are rank 0's, renamed
//
// Sums that different ranks made are held to differ, but for a sum over all contributions in
// ascending order. So a plan may be right, and not be proved here; then check.cc proves it in full.

#pragma once

#include "ringrad/parallel/plan/collective/symmetry.h"

namespace ringrad {

/// True if this proves what plan_check would prove of the lists plan_of(0), plan_of(1), ... for
/// channels of `slots` messages. False says nothing.
///
/// REQUIRES: first = plan_of(0) has the right shape (plan_shape_check), and steps of rank 0 alone,
///           whose time slots run forward; slots >= 1
bool is_proved_by_symmetry(const CollectivePlan& first, const PlanOfRank& plan_of, int slots);

}  // namespace ringrad
