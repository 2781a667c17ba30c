// The proof of a symmetric plan (symmetry.h): one list is run instead of n.
//
// The proof runs the ranks in lockstep: each takes its first step, then each its second. As
// replay.h explains, one order of running covers all. What happens at rank r is what happens at
// rank 0, renamed, so it suffices to keep track of rank 0:
//
//   channels   a receive from p meets a send of p's list. That send is rank 0's, renamed: rank 0's
//              send to the rank that p's renaming takes to 0
//   clocks     what rank 0 has heard of each rank (happens_before.h); p's are rank 0's, renamed
//   values     a contribution, or a sum, which is named by the step and the rank that made it and
//              has a set of contributions; p's values are rank 0's, renamed
//
// Sums made by different ranks count as different, except sums over all contributions in ascending
// order. A correct plan may therefore fail this proof; check.cc then proves it in full.

#pragma once

#include "ringrad/parallel/plan/collective/symmetry.h"

namespace ringrad {

/// True if this proves what plan_check would prove of the lists plan_of(0), plan_of(1), ... for
/// channels of `slots` messages. False does not mean that the plan is wrong.
///
/// REQUIRES: first = plan_of(0) passes plan_shape_check and has only steps of rank 0, whose time
///           slots run forward; slots >= 1
bool is_proved_by_symmetry(const CollectivePlan& first, const PlanOfRank& plan_of, int slots);

}  // namespace ringrad
