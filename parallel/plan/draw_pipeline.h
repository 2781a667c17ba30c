// pipeline_svg: a pipeline schedule as a picture, when each device does what, planned and measured on one axis.
//
//     device 0 |F0|F1|F2|F3|//////|  B0  |  B1  |  ...          boxes are as long as what they show takes; the number
//     device 1 ///|F0|F1|F2|F3|  B0  |  B1  |  ...              in them is the micro-batch; later stages of a device
//     device 2 //////|F0|F1|  B0  |F2|  B1  |  ...              are lighter
//              +-----+-----+-----+-----+-----  time             hatched: the bubble
//
// Messages are not drawn: what a device waits for is bubble.

#pragma once

#include <string>

#include "parallel/plan/pipeline_cost.h"
#include "parallel/plan/pipeline_plan.h"

namespace ringrad {

struct PipelineDrawing {
  std::string title = {};  ///< by default the plan's schedule and sizes
  /// Of the times: of "s" as many are drawn as s, ms or us, whichever fits; any other name is just written.
  std::string unit = "s";
};

/// A self-contained SVG file: a row per device, and a second panel for what was measured, if anything.
///
/// Throws: std::invalid_argument as times_of_spans for either times, and unless the plan's devices have its stages
std::string pipeline_svg(const PipelinePlan& plan, const PipelineTimes& planned,
                         const PipelineTimes* measured = nullptr,
                         const PipelineDrawing& drawing = {});

}  // namespace ringrad
