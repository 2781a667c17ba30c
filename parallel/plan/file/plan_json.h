// Collective plans as JSON, to keep them, compare them, or hand them to other programs.
//
//     {
//       "collective": "all_reduce", "algorithm": "ring", "world_size": 2, "num_chunks": 2,
//       "root": 0,
//       "steps": [
//         {"step": 0, "rank": 0, "op": "send", "chunk": 1, "peers": [1]},
//         ...
//       ]
//     }

#pragma once

#include <string>
#include <string_view>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// One step per line. collective_plan_from_json returns an equal plan.
///
/// REQUIRES: plan.algorithm is UTF-8
/// Throws:   std::invalid_argument for a text above 64 MiB, which would not be read
std::string to_json(const CollectivePlan& plan);

/// Does not check whether the plan is correct; see plan_check.
///
/// Throws: std::invalid_argument that names the field unless every field exists and has its type,
///         and none is unknown
CollectivePlan collective_plan_from_json(std::string_view text);

}  // namespace ringrad
