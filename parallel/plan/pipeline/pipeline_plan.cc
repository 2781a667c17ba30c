#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"

#include <ostream>
#include <stdexcept>
#include <utility>

namespace ringrad {

PipelinePlan empty_pipeline_plan(std::string schedule, int num_devices, int stages_per_device,
                                 int num_micro_batches) {
  if (num_devices < 1 || stages_per_device < 1 || num_micro_batches < 1)
    throw std::invalid_argument(
        "pipeline: devices, stages per device and micro-batches must be "
        "positive; got " +
        std::to_string(num_devices) + ", " + std::to_string(stages_per_device) + " and " +
        std::to_string(num_micro_batches));
  return {
      .schedule = std::move(schedule),
      .num_devices = num_devices,
      .num_stages = num_devices * stages_per_device,
      .num_micro_batches = num_micro_batches,
      .actions = std::vector<std::vector<PipelineAction>>(static_cast<std::size_t>(num_devices))};
}

PipelinePlan with_messages(const PipelinePlan& plan) {
  using enum PipelineOp;
  PipelinePlan result = plan;
  // Two stages of one device need no message.
  const bool has_messages = plan.num_devices > 1;
  for (auto& actions : result.actions) {
    std::vector<PipelineAction> all;
    for (const PipelineAction& action : actions) {
      const auto& [op, stage, micro_batch] = action;
      if (!is_compute(op))
        throw std::invalid_argument(
            std::string("pipeline: a plan that gets its messages must have none yet; got ") +
            name(op));
      const bool is_first = stage == 0, is_last = stage == plan.num_stages - 1;
      const bool makes_gradient = op == backward || op == backward_input;
      if (has_messages && op == forward && !is_first)
        all.push_back({recv_activation, stage, micro_batch});
      if (has_messages && makes_gradient && !is_last)
        all.push_back({recv_gradient, stage, micro_batch});
      all.push_back(action);
      if (has_messages && op == forward && !is_last)
        all.push_back({send_activation, stage, micro_batch});
      if (has_messages && makes_gradient && !is_first)
        all.push_back({send_gradient, stage, micro_batch});
    }
    actions = std::move(all);
  }
  return result;
}

const char* name(PipelineOp op) {
  switch (op) {
    case PipelineOp::forward:
      return "forward";
    case PipelineOp::backward:
      return "backward";
    case PipelineOp::backward_input:
      return "backward_input";
    case PipelineOp::backward_weight:
      return "backward_weight";
    case PipelineOp::send_activation:
      return "send_activation";
    case PipelineOp::recv_activation:
      return "recv_activation";
    case PipelineOp::send_gradient:
      return "send_gradient";
    case PipelineOp::recv_gradient:
      return "recv_gradient";
  }
  return "?";
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
