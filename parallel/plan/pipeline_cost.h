// How long a pipeline schedule takes: its run in time, action by action, under a model of the stages.
//
//     device 0   | F | F | F | F |       | B  | B  |           busy: the units that are filled
//     device 1       | F | B  | F | B  |                       bubble: the rest, until the last device is done
//
// A message takes its time from when it was made until it can be used, and no device's time, unless devices copy
// messages themselves. Devices that share processors or memory slow each other down while they compute or copy, and have
// them to themselves while the others wait: `contention`.

#pragma once

#include <vector>

#include "parallel/plan/pipeline_plan.h"

namespace ringrad {

/// Seconds per micro-batch, of each stage; a stage that is not listed takes what the last one does. Messages between
/// stages s and s + 1 take message_s[s], either way, and before that copy_s[s] of the sender's own time and, when they
/// have arrived, as much of the receiver's.
struct PipelineCosts {
  std::vector<double> forward_s = {1};
  std::vector<double> backward_input_s = {1};
  std::vector<double> backward_weight_s = {1};
  std::vector<double> message_s = {0};
  std::vector<double> copy_s = {0};
  /// How many times longer a device computes or copies while 1, 2, ... of them do; more than are listed: the last.
  std::vector<double> contention = {1};
};

struct PipelineTimes {
  struct Span {
    double start_s = 0;
    double end_s = 0;
  };
  std::vector<std::vector<Span>> spans;  ///< of plan.actions
  double total_s = 0;                    ///< until the last action ends
  /// The share of the devices' time in which they do not compute, but wait or copy messages:
  /// 1 - sum of compute times / (devices * total).
  double bubble = 0;
};

/// The times of a run whose actions took these spans: when it ended, and its bubble. Devices wait whenever they do not
/// compute, also inside of a receive.
///
/// Throws: std::invalid_argument unless there is a span for every action of the plan, in their order: 0 <= start of the
///         first, start <= end, end <= start of the next
PipelineTimes times_of_spans(const PipelinePlan& plan,
                             std::vector<std::vector<PipelineTimes::Span>> spans);

/// What the stages took on average in a run; whole backward passes count half as either half.
///
/// REQUIRES: times are the plan's
PipelineCosts mean_costs(const PipelinePlan& plan, const PipelineTimes& times);

/// The plan's run. While k devices compute or copy, the work of each gets on at 1 / contention[k - 1] of its speed.
///
/// Throws: std::invalid_argument unless costs are finite and not negative, contention is at least 1, the plan runs to its
///         end, and that is at a finite time
PipelineTimes pipeline_times(const PipelinePlan& plan, const PipelineCosts& costs);

}  // namespace ringrad
