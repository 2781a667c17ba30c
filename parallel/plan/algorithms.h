// All algorithms by name, so that a program's options, a benchmark or a test can go through them.
//
//     make_plan(Collective::all_reduce, "chain", 8, {.segments = 16});
//     for (const std::string& name : algorithm_names(Collective::broadcast)) ...
//
// What each is good for is told where it is written: ring_plan.h, direct_plan.h, halving_plan.h,
// tree_plan.h, chain_plan.h, hierarchical_plan.h.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/plan/collective_plan.h"

namespace ringrad {

/// What an algorithm may want to know beside the world size. Each takes what means something to it.
struct PlanOptions {
  int segments = 1;
  int root = 0;
  int ranks_per_host = 1;
};

/// Throws: std::invalid_argument for an unknown name, with the names that there are; and what the
///         algorithm throws
CollectivePlan make_plan(Collective collective, std::string_view algorithm, int world_size,
                         const PlanOptions& options = {});

/// The names that make_plan knows for a collective.
std::vector<std::string> algorithm_names(Collective collective);

}  // namespace ringrad
