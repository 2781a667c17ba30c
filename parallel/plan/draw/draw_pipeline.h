// pipeline_svg: a pipeline schedule as a picture: when each device does what, planned and measured
// on one axis.
//
//     device 0 |F0|F1|F2|F3|//////|  B0  |  B1  |  ...   boxes are as long as their work takes; a
//     device 1 ///|F0|F1|F2|F3|  B0  |  B1  |  ...       box's number is the micro-batch; later
//     device 2 //////|F0|F1|  B0  |F2|  B1  |  ...       stages of a device are lighter; hatched:
//              +-----+-----+-----+-----+-----  time      the bubble
//
// Messages are not drawn: time in which a device waits counts as bubble.

#pragma once

#include <string>

#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"

namespace ringrad {

struct PipelineDrawingOptions {
  std::string title = {};  ///< by default the plan's schedule and sizes
  /// Unit of the times. "s" is scaled to s, ms or us, whichever fits; any other name is written as
  /// it is.
  std::string unit = "s";
};

/// A self-contained SVG file: a row per device, and a second panel for the measured times, if any.
///
/// Throws: std::invalid_argument as times_of_spans for either times, and unless the plan's devices
/// have its stages
std::string pipeline_svg(const PipelinePlan& plan, const PipelineTimes& planned,
                         const PipelineTimes* measured = nullptr,
                         const PipelineDrawingOptions& drawing = {});

}  // namespace ringrad
