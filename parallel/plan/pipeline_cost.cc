#include "parallel/plan/pipeline_cost.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

namespace ringrad {
namespace {

using enum PipelineOp;

double of_stage(const std::vector<double>& costs, int stage) {
  return costs[std::min(static_cast<std::size_t>(stage), costs.size() - 1)];
}

double seconds_of(const PipelineAction& action, const PipelineCosts& costs) {
  const double input = of_stage(costs.backward_input_s, action.stage),
               weight = of_stage(costs.backward_weight_s, action.stage);
  switch (action.op) {
    case forward:
      return of_stage(costs.forward_s, action.stage);
    case backward:
      return input + weight;
    case backward_input:
      return input;
    case backward_weight:
      return weight;
    default:
      return 0;
  }
}

void check(const PipelineCosts& costs) {
  for (const auto* stages : {&costs.forward_s, &costs.backward_input_s, &costs.backward_weight_s})
    if (stages->empty() ||
        std::any_of(stages->begin(), stages->end(), [](double s) { return !(s > 0); }))
      throw std::invalid_argument("pipeline: costs of stages must be positive");
  if (!(costs.message_s >= 0))
    throw std::invalid_argument("pipeline: the cost of a message must not be negative");
}

}  // namespace

PipelineTimes pipeline_times(const PipelinePlan& plan, const PipelineCosts& costs) {
  check(costs);
  PipelineTimes times;
  times.spans.resize(plan.actions.size());
  // When what is sent is there; keyed by what receives it.
  std::map<std::tuple<PipelineOp, int, int>, double> arrivals;
  double busy_s = 0;
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t device = 0; device < plan.actions.size(); ++device) {
      auto& spans = times.spans[device];
      for (; spans.size() < plan.actions[device].size(); moves = true) {
        const PipelineAction& action = plan.actions[device][spans.size()];
        const auto& [op, stage, micro_batch] = action;
        double start_s = spans.empty() ? 0 : spans.back().end_s;
        if (op == recv_activation || op == recv_gradient) {
          const auto arrival = arrivals.find({op, stage, micro_batch});
          if (arrival == arrivals.end()) break;
          start_s = std::max(start_s, arrival->second);
        }
        const double takes_s = seconds_of(action, costs);
        if (op == send_activation)
          arrivals[{recv_activation, stage + 1, micro_batch}] = start_s + costs.message_s;
        if (op == send_gradient)
          arrivals[{recv_gradient, stage - 1, micro_batch}] = start_s + costs.message_s;
        spans.push_back({start_s, start_s + takes_s});
        busy_s += takes_s;
        times.total_s = std::max(times.total_s, start_s + takes_s);
      }
    }
  }
  for (std::size_t device = 0; device < plan.actions.size(); ++device)
    if (times.spans[device].size() < plan.actions[device].size())
      throw std::invalid_argument("pipeline: the plan must run to its end; got device " +
                                  std::to_string(device) + " that waits for ever");
  if (times.total_s > 0)
    times.bubble = 1 - busy_s / (static_cast<double>(plan.num_devices) * times.total_s);
  return times;
}

}  // namespace ringrad
