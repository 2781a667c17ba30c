#include "parallel/plan/pipeline_cost.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

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
  for (const auto* stages :
       {&costs.forward_s, &costs.backward_input_s, &costs.backward_weight_s, &costs.message_s})
    if (stages->empty() || std::any_of(stages->begin(), stages->end(),
                                       [](double s) { return !(s >= 0) || !std::isfinite(s); }))
      throw std::invalid_argument("pipeline: costs of stages and messages must not be negative");
}

void check(const PipelinePlan& plan, const std::vector<std::vector<PipelineTimes::Span>>& spans) {
  const auto fail = [](const std::string& text) {
    throw std::invalid_argument("pipeline: " + text);
  };
  if (spans.size() != plan.actions.size())
    fail("there must be spans for each device; got those of " + std::to_string(spans.size()) +
         " devices and " + std::to_string(plan.actions.size()) + " devices");
  for (std::size_t device = 0; device < spans.size(); ++device) {
    const std::string of_device = " of device " + std::to_string(device);
    if (spans[device].size() != plan.actions[device].size())
      fail("every action must have a span; got " + std::to_string(spans[device].size()) +
           " spans and " + std::to_string(plan.actions[device].size()) + " actions" + of_device);
    double before_s = 0;
    for (const auto& [start_s, end_s] : spans[device]) {
      if (!(before_s <= start_s && start_s <= end_s && std::isfinite(end_s)))
        fail("spans must follow each other; got one from " + std::to_string(start_s) + " s to " +
             std::to_string(end_s) + " s after " + std::to_string(before_s) + " s" + of_device);
      before_s = end_s;
    }
  }
}

// When what is sent is there, by what receives it; -1 until it is known.
class Arrivals {
 public:
  explicit Arrivals(const PipelinePlan& plan)
      : num_stages_(plan.num_stages),
        num_micro_batches_(plan.num_micro_batches),
        times_(2 * static_cast<std::size_t>(num_stages_) *
                   static_cast<std::size_t>(num_micro_batches_),
               -1) {}

  double& operator()(PipelineOp receive, int stage, int micro_batch) {
    if (stage < 0 || stage >= num_stages_ || micro_batch < 0 || micro_batch >= num_micro_batches_)
      throw std::invalid_argument(
          "pipeline: a message must be for a stage and of a micro-batch that exist; got stage " +
          std::to_string(stage) + ", micro-batch " + std::to_string(micro_batch));
    const std::size_t row = 2 * static_cast<std::size_t>(stage) + (receive == recv_gradient);
    return times_[row * static_cast<std::size_t>(num_micro_batches_) +
                  static_cast<std::size_t>(micro_batch)];
  }

 private:
  const int num_stages_, num_micro_batches_;
  std::vector<double> times_;  // (num_stages, 2, num_micro_batches)
};

}  // namespace

PipelineTimes times_of_spans(const PipelinePlan& plan,
                             std::vector<std::vector<PipelineTimes::Span>> spans) {
  check(plan, spans);
  PipelineTimes times{.spans = std::move(spans)};
  double busy_s = 0;
  for (std::size_t device = 0; device < plan.actions.size(); ++device)
    for (std::size_t i = 0; i < plan.actions[device].size(); ++i) {
      const auto& [start_s, end_s] = times.spans[device][i];
      if (is_compute(plan.actions[device][i].op)) busy_s += end_s - start_s;
      times.total_s = std::max(times.total_s, end_s);
    }
  if (times.total_s > 0)
    times.bubble = 1 - busy_s / (static_cast<double>(plan.num_devices) * times.total_s);
  return times;
}

PipelineCosts mean_costs(const PipelinePlan& plan, const PipelineTimes& times) {
  constexpr double kLeast_s = 1e-12;  // of what the clock did not see
  PipelineCosts costs;
  costs.forward_s.assign(static_cast<std::size_t>(plan.num_stages), kLeast_s);
  costs.backward_input_s = costs.backward_weight_s = costs.forward_s;
  for (std::size_t device = 0; device < plan.actions.size(); ++device)
    for (std::size_t i = 0; i < plan.actions[device].size(); ++i) {
      const auto& [op, stage, micro_batch] = plan.actions[device][i];
      const auto& [start_s, end_s] = times.spans[device][i];
      const auto at = static_cast<std::size_t>(stage);
      const double share_s = (end_s - start_s) / plan.num_micro_batches;
      if (op == forward) costs.forward_s[at] += share_s;
      if (op == backward || op == backward_input)
        costs.backward_input_s[at] += op == backward ? share_s / 2 : share_s;
      if (op == backward || op == backward_weight)
        costs.backward_weight_s[at] += op == backward ? share_s / 2 : share_s;
    }
  return costs;
}

PipelineTimes pipeline_times(const PipelinePlan& plan, const PipelineCosts& costs) {
  check(costs);
  PipelineTimes times;
  times.spans.resize(plan.actions.size());
  Arrivals arrivals(plan);
  for (bool moves = true; moves;) {
    moves = false;
    for (std::size_t device = 0; device < plan.actions.size(); ++device) {
      auto& spans = times.spans[device];
      for (; spans.size() < plan.actions[device].size(); moves = true) {
        const PipelineAction& action = plan.actions[device][spans.size()];
        const auto& [op, stage, micro_batch] = action;
        double start_s = spans.empty() ? 0 : spans.back().end_s;
        if (op == recv_activation || op == recv_gradient) {
          const double arrival_s = arrivals(op, stage, micro_batch);
          if (arrival_s < 0) break;
          start_s = std::max(start_s, arrival_s);
        }
        const double takes_s = seconds_of(action, costs);
        if (op == send_activation)
          arrivals(recv_activation, stage + 1, micro_batch) =
              start_s + of_stage(costs.message_s, stage);
        if (op == send_gradient)
          arrivals(recv_gradient, stage - 1, micro_batch) =
              start_s + of_stage(costs.message_s, stage - 1);
        spans.push_back({start_s, start_s + takes_s});
      }
    }
  }
  for (std::size_t device = 0; device < plan.actions.size(); ++device)
    if (times.spans[device].size() < plan.actions[device].size())
      throw std::invalid_argument("pipeline: the plan must run to its end; got device " +
                                  std::to_string(device) + " that waits for ever");
  return times_of_spans(plan, std::move(times.spans));
}

}  // namespace ringrad
