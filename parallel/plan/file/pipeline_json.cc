#include "ringrad/parallel/plan/file/pipeline_json.h"

#include <cstdint>
#include <iterator>
#include <locale>
#include <sstream>
#include <utility>
#include <vector>

#include "ringrad/parallel/plan/file/json_fields.h"

namespace ringrad {
namespace {

using nlohmann::json;
using enum PipelineOp;

constexpr char kRun[] = "pipeline run";
constexpr PipelineOp kPipelineOps[] = {forward,         backward,        backward_input,
                                       backward_weight, send_activation, recv_activation,
                                       send_gradient,   recv_gradient};

PipelinePlan empty_plan_of(const JsonFields& fields) {
  const int num_devices = fields.integer("num_devices"), num_stages = fields.integer("num_stages");
  if (num_devices < 1 || num_stages < 1 || num_stages % num_devices != 0)
    fields.fail("num_stages", "be a multiple of num_devices",
                std::to_string(num_stages) + " and " + std::to_string(num_devices));
  const std::size_t num_lists = fields.array("devices").size();
  if (num_lists != static_cast<std::size_t>(num_devices))
    fields.fail("devices", "have a list per device",
                std::to_string(num_lists) + " and " + std::to_string(num_devices));
  return empty_pipeline_plan(fields.string("schedule"), num_devices, num_stages / num_devices,
                             fields.integer("num_micro_batches"));
}

PipelineAction action_of(const JsonFields& fields, const PipelinePlan& plan, int device) {
  const PipelineAction action{fields.one_of("op", kPipelineOps), fields.integer("stage"),
                              fields.integer("micro_batch")};
  if (action.stage < 0 || action.stage >= plan.num_stages || plan.device_of(action.stage) != device)
    fields.fail("stage", "be one of device " + std::to_string(device),
                std::to_string(action.stage));
  if (action.micro_batch < 0 || action.micro_batch >= plan.num_micro_batches)
    fields.fail("micro_batch", "be in [0, " + std::to_string(plan.num_micro_batches) + ")",
                std::to_string(action.micro_batch));
  return action;
}

// Computations on a run need arrays of this size, so it must not exceed the text's length.
void check_size(const JsonFields& fields, const PipelinePlan& plan) {
  std::int64_t num_actions = 0;
  for (const auto& actions : plan.actions) num_actions += std::ssize(actions);
  const std::int64_t least = std::int64_t{plan.num_stages} * plan.num_micro_batches;
  if (num_actions < least)
    fields.fail("devices",
                "have an action for each stage and micro-batch, " + std::to_string(least),
                std::to_string(num_actions));
}

}  // namespace

std::string to_json(const PipelineRun& run) {
  const auto& [plan, times] = run;
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << "{\n  \"schedule\": " << json(plan.schedule) << ", \"num_devices\": " << plan.num_devices
      << ", \"num_stages\": " << plan.num_stages
      << ", \"num_micro_batches\": " << plan.num_micro_batches << ",\n  \"devices\": [";
  for (std::size_t device = 0; device < plan.actions.size(); ++device) {
    out << (device == 0 ? "\n    [" : ",\n    [");
    for (std::size_t i = 0; i < plan.actions[device].size(); ++i) {
      const PipelineAction& action = plan.actions[device][i];
      const auto& [start_s, end_s] = times.spans[device][i];
      out << (i == 0 ? "\n" : ",\n") << "      {\"op\": \"" << name(action.op)
          << "\", \"stage\": " << action.stage << ", \"micro_batch\": " << action.micro_batch
          << ", \"start_s\": " << json(start_s) << ", \"end_s\": " << json(end_s) << '}';
    }
    out << "\n    ]";
  }
  out << "\n  ]\n}\n";
  return readable_text(kRun, std::move(out).str());
}

PipelineRun pipeline_run_from_json(std::string_view text) {
  const json root = parse_json(kRun, text);
  const JsonFields fields(
      root, kRun, "", {"schedule", "num_devices", "num_stages", "num_micro_batches", "devices"});
  PipelineRun run{.plan = empty_plan_of(fields), .times = {}};
  const json& devices = fields.array("devices");
  std::vector<std::vector<PipelineTimes::Span>> spans(devices.size());
  for (std::size_t device = 0; device < devices.size(); ++device) {
    const std::string of_device = "devices[" + std::to_string(device) + "]";
    if (!devices[device].is_array())
      fields.fail(of_device, "be a list", devices[device].type_name());
    for (std::size_t i = 0; i < devices[device].size(); ++i) {
      const JsonFields action(devices[device][i], kRun, of_device + "[" + std::to_string(i) + "].",
                              {"op", "stage", "micro_batch", "start_s", "end_s"});
      run.plan.actions[device].push_back(action_of(action, run.plan, static_cast<int>(device)));
      spans[device].push_back({action.number("start_s"), action.number("end_s")});
    }
  }
  check_size(fields, run.plan);
  run.times = times_of_spans(run.plan, std::move(spans));
  return run;
}

}  // namespace ringrad
