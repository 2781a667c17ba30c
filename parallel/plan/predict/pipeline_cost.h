// The time of a pipeline schedule: its run, action by action, under a model of the stages.
//
//     device 0   | F | F | F | F |       | B  | B  |    busy: the filled units
//     device 1       | F | B  | F | B  |                bubble: the rest, until all devices end
//
// A message can be used some time after it was made; it takes no device's time, unless devices copy
// messages themselves. Devices that share processors or memory slow each other down while they
// compute or copy; a device runs at full speed while the others wait. `contention` has the factors.

#pragma once

#include <vector>

#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"

namespace ringrad {

/// Seconds per micro-batch, of each stage; stages beyond a list use its last number. Messages
/// between stages s and s + 1 take message_s[s] in either direction. Before that they take
/// copy_s[s] of the sender's own time, and after their arrival as much of the receiver's.
struct PipelineCosts {
  std::vector<double> forward_s = {1};
  std::vector<double> backward_input_s = {1};
  std::vector<double> backward_weight_s = {1};
  std::vector<double> message_s = {0};
  std::vector<double> copy_s = {0};
  /// Factor by which computing and copying slow down while 1, 2, ... devices do either; more
  /// devices than listed use the last factor.
  std::vector<double> contention = {1};
};

struct PipelineTimes {
  struct Span {
    double start_s = 0;
    double end_s = 0;
  };
  std::vector<std::vector<Span>> spans;  ///< of plan.actions
  double total_s = 0;                    ///< end of the last action
  /// The share of the devices' time in which they do not compute, but wait or copy messages: 1 -
  /// sum of compute times / (devices * total).
  double bubble = 0;
};

/// The times of a run whose actions took these spans: its end and its bubble. A device waits
/// whenever it does not compute, including inside a receive.
///
/// Throws: std::invalid_argument unless there is a span for every action of the plan, in order: 0
///         <= start of the first, start <= end, end <= start of the next
PipelineTimes times_of_spans(const PipelinePlan& plan,
                             std::vector<std::vector<PipelineTimes::Span>> spans);

/// The stages' average costs in a run; a whole backward pass counts as two halves of equal cost.
///
/// REQUIRES: times are the plan's
PipelineCosts mean_costs(const PipelinePlan& plan, const PipelineTimes& times);

/// The plan's run. While k devices compute or copy, each works at 1 / contention[k - 1] of its
/// speed.
///
/// Throws: std::invalid_argument unless costs are finite and not negative, contention is at least
///         1, the plan runs to its end, and that end is finite
PipelineTimes pipeline_times(const PipelinePlan& plan, const PipelineCosts& costs);

}  // namespace ringrad
