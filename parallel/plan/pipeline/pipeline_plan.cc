#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {

PipelinePlan empty_pipeline_plan(std::string schedule, int num_devices, int stages_per_device,
                                 int num_micro_batches) {
  require(num_devices >= 1 && stages_per_device >= 1 && num_micro_batches >= 1,
          "pipeline: devices, stages per device and micro-batches must be positive; got ",
          num_devices, ", ", stages_per_device, " and ", num_micro_batches);
  return {
      .schedule = std::move(schedule),
      .num_devices = num_devices,
      .num_stages = num_devices * stages_per_device,
      .num_micro_batches = num_micro_batches,
      .actions = std::vector<std::vector<PipelineAction>>(static_cast<std::size_t>(num_devices))};
}

bool has_messages(const PipelinePlan& plan) {
  const auto is_message = [](const PipelineAction& action) { return !is_compute(action.op); };
  return std::any_of(plan.actions.begin(), plan.actions.end(), [&](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(), is_message);
  });
}

PipelinePlan with_messages(const PipelinePlan& plan) {
  using enum PipelineOp;
  PipelinePlan result = plan;
  // Two stages of one device need no message.
  const bool sends = plan.num_devices > 1;
  for (auto& actions : result.actions) {
    std::vector<PipelineAction> all;
    for (const PipelineAction& action : actions) {
      const auto& [op, stage, micro_batch] = action;
      require(is_compute(op), "pipeline: a plan that gets its messages must have none yet; got ",
              name(op));
      const bool is_first = stage == 0, is_last = stage == plan.num_stages - 1;
      const bool makes_gradient = op == backward || op == backward_input;
      if (sends && op == forward && !is_first) all.push_back({recv_activation, stage, micro_batch});
      if (sends && makes_gradient && !is_last) all.push_back({recv_gradient, stage, micro_batch});
      all.push_back(action);
      if (sends && op == forward && !is_last) all.push_back({send_activation, stage, micro_batch});
      if (sends && makes_gradient && !is_first) all.push_back({send_gradient, stage, micro_batch});
    }
    actions = std::move(all);
  }
  return result;
}

const char* name(PipelineOp op) {
  constexpr const char* kNames[] = {"forward",         "backward",        "backward_input",
                                    "backward_weight", "send_activation", "recv_activation",
                                    "send_gradient",   "recv_gradient"};
  return kNames[static_cast<std::size_t>(op)];
}

std::ostream& operator<<(std::ostream& out, const PipelineAction& action) {
  return out << name(action.op) << " stage " << action.stage << " micro-batch "
             << action.micro_batch;
}

std::ostream& operator<<(std::ostream& out, const PipelinePlan& plan) {
  constexpr char kLetters[] = "FBIW";
  out << plan.schedule << ": " << plan.num_stages << " stages on " << plan.num_devices
      << " devices, " << plan.num_micro_batches << " micro-batches";
  for (std::size_t device = 0; device < plan.actions.size(); ++device) {
    out << "\ndevice " << device << ':';
    for (const auto& [op, stage, micro_batch] : plan.actions[device])
      if (is_compute(op))
        out << ' ' << kLetters[static_cast<int>(op)] << stage << '.' << micro_batch;
  }
  return out << '\n';
}

}  // namespace ringrad
