#include "ringrad/parallel/plan/predict/pipeline_cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/predict/layer_cost.h"

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
    case send_activation:
    case recv_gradient:
      return of_stage(costs.copy_s, action.stage);
    case recv_activation:
    case send_gradient:
      return of_stage(costs.copy_s, action.stage - 1);
  }
  return 0;
}

void check(const PipelineCosts& costs) {
  for (const auto* stages : {&costs.forward_s, &costs.backward_input_s, &costs.backward_weight_s,
                             &costs.message_s, &costs.copy_s})
    require(!stages->empty() && std::all_of(stages->begin(), stages->end(), is_cost),
            "pipeline: costs of stages and messages must not be negative");
  require(!costs.contention.empty() && std::all_of(costs.contention.begin(), costs.contention.end(),
                                                   [](double f) { return f >= 1 && is_cost(f); }),
          "pipeline: contention must be at least 1");
}

void check(const PipelinePlan& plan, const std::vector<std::vector<PipelineTimes::Span>>& spans) {
  require(spans.size() == plan.actions.size(),
          "pipeline: there must be spans for each device; got those of ", spans.size(),
          " devices and ", plan.actions.size(), " devices");
  for (std::size_t device = 0; device < spans.size(); ++device) {
    require(spans[device].size() == plan.actions[device].size(),
            "pipeline: every action must have a span; got ", spans[device].size(), " spans and ",
            plan.actions[device].size(), " actions of device ", device);
    double before_s = 0;
    for (const auto& [start_s, end_s] : spans[device]) {
      if (!(before_s <= start_s && start_s <= end_s && std::isfinite(end_s)))
        throw std::invalid_argument(text_of("pipeline: spans must follow each other; got one from ",
                                            std::to_string(start_s), " s to ",
                                            std::to_string(end_s), " s after ",
                                            std::to_string(before_s), " s of device ", device));
      before_s = end_s;
    }
  }
}

struct Message {
  double arrival_s = -1;  // -1: not sent
  int receiver = -1;      // the device that waits for it; -1: none
};

// Indexed by the actions that receive them.
class Messages {
 public:
  explicit Messages(const PipelinePlan& plan)
      : num_stages_(plan.num_stages),
        num_micro_batches_(plan.num_micro_batches),
        messages_(2 * static_cast<std::size_t>(num_stages_) *
                  static_cast<std::size_t>(num_micro_batches_)) {}

  Message& operator()(PipelineOp receive, int stage, int micro_batch) {
    require(
        stage >= 0 && stage < num_stages_ && micro_batch >= 0 && micro_batch < num_micro_batches_,
        "pipeline: a message must be for a stage and of a micro-batch that exist; got stage ",
        stage, ", micro-batch ", micro_batch);
    const std::size_t row = 2 * static_cast<std::size_t>(stage) + (receive == recv_gradient);
    return messages_[row * static_cast<std::size_t>(num_micro_batches_) +
                     static_cast<std::size_t>(micro_batch)];
  }

 private:
  const int num_stages_, num_micro_batches_;
  std::vector<Message> messages_;  // (num_stages, 2, num_micro_batches)
};

// The run of a plan, event by event. All busy devices are slowed alike. A clock of work therefore
// runs beside the clock of time, the slower the more devices are busy. By the clock of work, the
// end of an action is known when it begins.
class Run {
 public:
  Run(const PipelinePlan& plan, const PipelineCosts& costs)
      : plan_(plan), costs_(costs), messages_(plan), spans_(plan.actions.size()) {
    for (std::size_t device = 0; device < plan.actions.size(); ++device) begin_next(device);
    while (!busy_.empty() || !arriving_.empty()) {
      const double end_s =
          busy_.empty() ? kNever : now_s_ + (busy_.top().at_s - work_s_) * slowed();
      const bool arrives = busy_.empty() || (!arriving_.empty() && arriving_.top().at_s < end_s);
      const Event event = arrives ? arriving_.top() : busy_.top();
      work_s_ = arrives ? work_s_ + (event.at_s - now_s_) / slowed() : event.at_s;
      now_s_ = arrives ? event.at_s : end_s;
      (arrives ? arriving_ : busy_).pop();
      arrives ? begin(event.device) : end(event);
    }
    for (std::size_t device = 0; device < plan.actions.size(); ++device)
      require(spans_[device].size() == plan.actions[device].size(),
              "pipeline: the plan must run to its end; got device ", device, " that waits forever");
  }

  std::vector<std::vector<PipelineTimes::Span>> take_spans() { return std::move(spans_); }

 private:
  struct Event {
    double at_s;  // the end, by the clock of work; the arrival, by the clock of time
    double start_s;
    std::size_t device;

    bool operator>(const Event& other) const { return at_s > other.at_s; }
  };
  using Events = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  double slowed() const {
    return costs_
        .contention[std::min(std::max<std::size_t>(busy_.size(), 1), costs_.contention.size()) - 1];
  }

  const PipelineAction& action_of(std::size_t device) const {
    return plan_.actions[device][spans_[device].size()];
  }

  void begin_next(std::size_t device) {
    if (spans_[device].size() == plan_.actions[device].size()) return;
    const auto& [op, stage, micro_batch] = action_of(device);
    if (op == recv_activation || op == recv_gradient) {
      Message& message = messages_(op, stage, micro_batch);
      if (message.arrival_s < 0) {
        message.receiver = static_cast<int>(device);
        return;
      }
      if (message.arrival_s > now_s_) {
        arriving_.push({message.arrival_s, now_s_, device});
        return;
      }
    }
    begin(device);
  }

  void begin(std::size_t device) {
    busy_.push({work_s_ + seconds_of(action_of(device), costs_), now_s_, device});
  }

  void end(const Event& event) {
    const auto& [op, stage, micro_batch] = action_of(event.device);
    if (op == send_activation)
      send(messages_(recv_activation, stage + 1, micro_batch), of_stage(costs_.message_s, stage));
    if (op == send_gradient)
      send(messages_(recv_gradient, stage - 1, micro_batch), of_stage(costs_.message_s, stage - 1));
    spans_[event.device].push_back({event.start_s, now_s_});
    begin_next(event.device);
  }

  void send(Message& message, double seconds) {
    message.arrival_s = now_s_ + seconds;
    if (message.receiver >= 0)
      arriving_.push({message.arrival_s, now_s_, static_cast<std::size_t>(message.receiver)});
    message.receiver = -1;
  }

  const PipelinePlan& plan_;
  const PipelineCosts& costs_;
  Messages messages_;
  Events busy_, arriving_;
  double now_s_ = 0, work_s_ = 0;
  std::vector<std::vector<PipelineTimes::Span>> spans_;
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
  return times_of_spans(plan, Run(plan, costs).take_spans());
}

}  // namespace ringrad
