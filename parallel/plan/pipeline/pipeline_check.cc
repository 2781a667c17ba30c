#include "ringrad/parallel/plan/pipeline/pipeline_check.h"

#include <algorithm>
#include <deque>
#include <map>
#include <ostream>
#include <utility>

#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

using enum PipelineOp;

// A run of the schedule, one action at a time.
class Run {
 public:
  Run(const PipelinePlan& plan, int slots)
      : plan_(plan), slots_(static_cast<std::size_t>(slots)), next_(plan.actions.size(), 0) {}

  std::optional<PipelineCounterExample> check() {
    if (auto wrong = check_shape()) return wrong;
    for (bool moves = true; moves;) {
      moves = false;
      for (device_ = 0; device_ < plan_.num_devices; ++device_)
        while (next() < list().size()) {
          const Outcome outcome = take(list()[next()]);
          if (outcome == Outcome::wrong) return wrong_;
          if (outcome == Outcome::waits) break;
          ++next();
          moves = true;
        }
    }
    if (auto stuck = check_progress()) return stuck;
    return check_complete();
  }

 private:
  enum class Outcome { done, waits, wrong };
  using StageBatch = std::pair<int, int>;  // stage, micro-batch
  struct Channel {
    int from, to;
    bool carries_gradients;
    auto operator<=>(const Channel&) const = default;
  };
  // The state of a micro-batch at a stage.
  struct State {
    bool has_input = false, has_output = false, has_gradient = false;
    bool has_input_gradient = false, has_weight_gradient = false;
  };

  const std::vector<PipelineAction>& list() const {
    return plan_.actions[static_cast<std::size_t>(device_)];
  }
  std::size_t& next() { return next_[static_cast<std::size_t>(device_)]; }

  template <class... Parts>
  Outcome fail(PlanFault fault, const Parts&... parts) {
    wrong_ = {
        fault, device_, static_cast<int>(next()),
        text_of("device ", device_, ", action ", next(), ", ", list()[next()], ": ", parts...)};
    return Outcome::wrong;
  }

  std::optional<PipelineCounterExample> check_shape() {
    const auto malformed = [](int device, int index, const auto&... parts) {
      return PipelineCounterExample{PlanFault::malformed, device, index, text_of(parts...)};
    };
    if (plan_.num_devices < 1 || plan_.num_micro_batches < 1 || plan_.num_stages < 1 ||
        plan_.num_stages % plan_.num_devices != 0 ||
        plan_.actions.size() != static_cast<std::size_t>(plan_.num_devices))
      return malformed(-1, -1, "stages must be a multiple of devices, each with a list; got ",
                       plan_.num_stages, " stages, ", plan_.num_devices, " devices, ",
                       plan_.actions.size(), " lists");
    for (int device = 0; device < plan_.num_devices; ++device) {
      const auto& actions = plan_.actions[static_cast<std::size_t>(device)];
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const auto& [op, stage, micro_batch] = actions[i];
        if (stage < 0 || stage >= plan_.num_stages || micro_batch < 0 ||
            micro_batch >= plan_.num_micro_batches || plan_.device_of(stage) != device)
          return malformed(device, static_cast<int>(i),
                           "an action must be of a stage of its device and of a micro-batch that "
                           "exists; got ",
                           actions[i], " on device ", device);
      }
    }
    return {};
  }

  // Two stages of one device exchange no messages: the result of one is at once available to the
  // other.
  void hand_over(int stage, int micro_batch, bool State::*what) {
    if (plan_.num_devices == 1 && stage >= 0 && stage < plan_.num_stages)
      states_[{stage, micro_batch}].*what = true;
  }

  Outcome take(const PipelineAction& action) {
    const auto& [op, stage, micro_batch] = action;
    State& state = states_[{stage, micro_batch}];
    const bool is_first = stage == 0, is_last = stage == plan_.num_stages - 1;
    switch (op) {
      case forward:
        if (state.has_output)
          return fail(PlanFault::duplicate, "must be computed once; got a second time");
        if (!is_first && !state.has_input)
          return fail(PlanFault::no_value, "its input must have been received; got nothing yet");
        state.has_output = true;
        hand_over(stage + 1, micro_batch, &State::has_input);
        return Outcome::done;
      case backward:
      case backward_input:
        if (state.has_input_gradient)
          return fail(PlanFault::duplicate, "must be computed once; got a second time");
        if (!state.has_output)
          return fail(PlanFault::no_value, "its forward pass must come before; got none");
        if (!is_last && !state.has_gradient)
          return fail(PlanFault::no_value,
                      "the gradient of its output must have been received; got nothing yet");
        state.has_input_gradient = true;
        state.has_weight_gradient = op == backward;
        hand_over(stage - 1, micro_batch, &State::has_gradient);
        return Outcome::done;
      case backward_weight:
        if (!state.has_input_gradient)
          return fail(PlanFault::no_value, "backward_input must come before; got none");
        if (state.has_weight_gradient)
          return fail(PlanFault::duplicate, "must be computed once; got a second time");
        state.has_weight_gradient = true;
        return Outcome::done;
      case send_activation:
        if (is_last || !state.has_output)
          return fail(
              PlanFault::no_value,
              "a send must follow the action that makes its tensor for the later stage; got none");
        return send({device_, plan_.device_of(stage + 1), false}, {stage + 1, micro_batch});
      case send_gradient:
        if (is_first || !state.has_input_gradient)
          return fail(PlanFault::no_value,
                      "a send must follow the action that makes its tensor for the earlier stage; "
                      "got none");
        return send({device_, plan_.device_of(stage - 1), true}, {stage - 1, micro_batch});
      case recv_activation:
        if (is_first)
          return fail(PlanFault::unmatched, "the first stage has its input; got a receive");
        return receive({plan_.device_of(stage - 1), device_, false}, {stage, micro_batch},
                       state.has_input);
      case recv_gradient:
        if (is_last)
          return fail(PlanFault::unmatched, "the last stage has its gradient; got a receive");
        return receive({plan_.device_of(stage + 1), device_, true}, {stage, micro_batch},
                       state.has_gradient);
    }
    return Outcome::done;
  }

  Outcome send(const Channel& channel, StageBatch what) {
    std::deque<StageBatch>& messages = channels_[channel];
    if (messages.size() >= slots_) return Outcome::waits;
    messages.push_back(what);
    return Outcome::done;
  }

  Outcome receive(const Channel& channel, StageBatch what, bool& has) {
    if (has) return fail(PlanFault::duplicate, "must be received once; got a second time");
    std::deque<StageBatch>& messages = channels_[channel];
    if (messages.empty()) return Outcome::waits;
    if (messages.front() != what)
      return fail(PlanFault::unmatched,
                  "messages must be received in the order of sending; got that for stage ",
                  messages.front().first, " micro-batch ", messages.front().second);
    messages.pop_front();
    has = true;
    return Outcome::done;
  }

  std::optional<PipelineCounterExample> check_progress() {
    for (device_ = 0; device_ < plan_.num_devices; ++device_)
      if (next() < list().size()) {
        fail(PlanFault::deadlock, "all actions must end with channels of ", slots_,
             " messages; got one that waits forever");
        return wrong_;
      }
    return {};
  }

  std::optional<PipelineCounterExample> check_complete() {
    for (int stage = 0; stage < plan_.num_stages; ++stage)
      for (int micro_batch = 0; micro_batch < plan_.num_micro_batches; ++micro_batch)
        if (const State& state = states_[{stage, micro_batch}]; !state.has_weight_gradient)
          return PipelineCounterExample{
              PlanFault::wrong_result, plan_.device_of(stage), -1,
              text_of("every stage must compute the gradients of every micro-batch; got stage ",
                      stage, " without ", state.has_output ? "backward" : "forward",
                      " of micro-batch ", micro_batch)};
    for (const auto& [channel, messages] : channels_)
      if (!messages.empty())
        return PipelineCounterExample{
            PlanFault::unmatched, channel.from, -1,
            text_of("every message must be received; got one from device ", channel.from,
                    " to device ", channel.to, " for stage ", messages.front().first,
                    " micro-batch ", messages.front().second, " that is not")};
    return {};
  }

  const PipelinePlan& plan_;
  const std::size_t slots_;
  std::vector<std::size_t> next_;  // (num_devices)
  int device_ = 0;
  std::map<StageBatch, State> states_;
  std::map<Channel, std::deque<StageBatch>> channels_;
  PipelineCounterExample wrong_{};
};

}  // namespace

std::optional<PipelineCounterExample> pipeline_check(const PipelinePlan& plan, int slots) {
  return Run(plan, slots).check();
}

std::vector<std::int64_t> peak_kept_bytes(const PipelinePlan& plan,
                                          const std::vector<std::int64_t>& saved_bytes) {
  std::vector<std::int64_t> peaks;
  for (const auto& actions : plan.actions) {
    std::int64_t kept = 0, peak = 0;
    for (const auto& [op, stage, micro_batch] : actions) {
      require(stage >= 0 && static_cast<std::size_t>(stage) < saved_bytes.size(),
              "pipeline: there must be bytes for each stage; got ", saved_bytes.size(),
              " numbers and stage ", stage);
      const std::int64_t bytes = saved_bytes[static_cast<std::size_t>(stage)];
      if (op == forward) kept += bytes;
      peak = std::max(peak, kept);
      if (op == backward || op == backward_weight) kept -= bytes;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<int> peak_kept(const PipelinePlan& plan) {
  const std::vector<std::int64_t> one_each(static_cast<std::size_t>(plan.num_stages), 1);
  const std::vector<std::int64_t> peaks = peak_kept_bytes(plan, one_each);
  return {peaks.begin(), peaks.end()};
}

std::ostream& operator<<(std::ostream& out, const PipelineCounterExample& example) {
  return out << name(example.fault) << ": " << example.text;
}

}  // namespace ringrad
