// Plans in files: those of collectives (plan_json.h) and those of pipelines, with a run
// (pipeline_json.h).

#pragma once

#include <optional>
#include <string>
#include <variant>

#include "ringrad/parallel/plan/collective/collective_plan.h"
#include "ringrad/parallel/plan/file/pipeline_json.h"

namespace ringrad {

using PlanFile = std::variant<CollectivePlan, PipelineRun>;

/// Throws: std::invalid_argument if the file cannot be read or does not hold a plan
PlanFile read_plan_file(const std::string& path);

/// The counter-example of plan_check or pipeline_check, such as "duplicate: rank 1 ..."; nothing if
/// the plan is proved. A pipeline's plan may lack its messages.
///
/// Throws: std::invalid_argument if a collective plan has more than 2^22 ranks times chunks
std::optional<std::string> fault_of(const CollectivePlan& plan);
std::optional<std::string> fault_of(const PipelinePlan& plan);

}  // namespace ringrad
