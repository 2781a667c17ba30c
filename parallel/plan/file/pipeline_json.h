// Runs of pipelines as JSON, to keep what was measured and to draw it beside what was planned
// (draw_pipeline.h).
//
//     {
//       "schedule": "1f1b", "num_devices": 2, "num_stages": 2, "num_micro_batches": 4,
//       "devices": [
//         [
//           {"op": "forward", "stage": 0, "micro_batch": 0, "start_s": 0, "end_s": 0.0012},
//           ...

#pragma once

#include <string>
#include <string_view>

#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"

namespace ringrad {

/// A plan, and when its actions ran, in seconds since the start of the run.
struct PipelineRun {
  PipelinePlan plan;
  PipelineTimes times;
};

/// One action per line. pipeline_run_from_json returns equal spans.
///
/// REQUIRES: plan.schedule is UTF-8, and times are the plan's
/// Throws:   std::invalid_argument for a text above 64 MiB, which would not be read
std::string to_json(const PipelineRun& run);

/// Does not check whether the plan is correct; see pipeline_check.
///
/// Throws: std::invalid_argument that names the field unless every field exists and has its type,
///         and none is unknown; as times_of_spans; and unless stages are a multiple of devices,
///         actions belong to stages of their device, and there are at least stages times
///         micro-batches actions
PipelineRun pipeline_run_from_json(std::string_view text);

}  // namespace ringrad
