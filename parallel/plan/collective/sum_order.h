// The order of a plan's additions, which decides the bits of floating-point results.
//
//   canonical    ((x0 + x1) + x2) + x3 in every chunk: bits depend neither on how a buffer is cut
//                nor on where an element lies in it
//   tree         (x0 + x1) + (x2 + x3) in every chunk, as balanced_tree.h joins ranks: likewise;
//                and if each rank's contribution is also such a sum, bits do not depend on how many
//                ranks share the leaves (1, 2, 4, 8, ...)
//   fast         anything else: bits depend on the world size, the cut, and an element's place
//
// The order is not declared but derived from the expressions of symbolic_values.h.
// docs/reproducibility.md lists what else decides the bits.

#pragma once

#include <cstdint>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

enum class SumOrder : std::uint8_t { canonical, tree, fast };

/// True if every sum that the collective promises is made in this order; always true for `fast`.
/// Collectives that add nothing have every order.
///
/// Throws: std::invalid_argument unless plan_check proves the plan
bool has_sum_order(const CollectivePlan& plan, SumOrder order);

/// The same, without proving the plan.
///
/// REQUIRES: plan_check has proved the plan
bool proved_plan_has_sum_order(const CollectivePlan& plan, SumOrder order);

/// The first of the three orders that applies. Up to 3 ranks, `canonical` and `tree` are the same.
///
/// Throws: as has_sum_order
SumOrder sum_order(const CollectivePlan& plan);

const char* name(SumOrder order);

}  // namespace ringrad
