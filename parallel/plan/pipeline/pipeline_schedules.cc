#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"

#include <algorithm>

#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

using enum PipelineOp;

struct Work {
  int stage, micro_batch;
};

// The first `warm_up` forward passes, then forward and backward alternately, then the remaining
// backward passes.
void alternate(std::vector<PipelineAction>& actions, const std::vector<Work>& forwards,
               const std::vector<Work>& backwards, std::size_t warm_up) {
  const std::size_t n = forwards.size();
  warm_up = std::min(warm_up, n);
  const auto add = [&](PipelineOp op, const Work& work) {
    actions.push_back({op, work.stage, work.micro_batch});
  };
  for (std::size_t i = 0; i < warm_up; ++i) add(forward, forwards[i]);
  for (std::size_t i = 0; i < n; ++i) {
    if (warm_up + i < n) add(forward, forwards[warm_up + i]);
    add(backward, backwards[i]);
  }
}

}  // namespace

PipelinePlan gpipe(int num_devices, int num_micro_batches) {
  PipelinePlan plan = empty_pipeline_plan("gpipe", num_devices, 1, num_micro_batches);
  for (int device = 0; device < num_devices; ++device) {
    auto& actions = plan.actions[static_cast<std::size_t>(device)];
    for (int b = 0; b < num_micro_batches; ++b) actions.push_back({forward, device, b});
    for (int b = 0; b < num_micro_batches; ++b) actions.push_back({backward, device, b});
  }
  return plan;
}

PipelinePlan one_forward_one_backward(int num_devices, int num_micro_batches) {
  PipelinePlan plan = empty_pipeline_plan("1f1b", num_devices, 1, num_micro_batches);
  for (int device = 0; device < num_devices; ++device) {
    std::vector<Work> passes;
    for (int b = 0; b < num_micro_batches; ++b) passes.push_back({device, b});
    alternate(plan.actions[static_cast<std::size_t>(device)], passes, passes,
              static_cast<std::size_t>(num_devices - device - 1));
  }
  return plan;
}

PipelinePlan interleaved(int num_devices, int stages_per_device, int num_micro_batches) {
  const int p = num_devices, v = stages_per_device;
  PipelinePlan plan = empty_pipeline_plan("interleaved", p, v, num_micro_batches);
  require(num_micro_batches % p == 0,
          "pipeline: interleaved needs a multiple of devices as micro-batches; got ",
          num_micro_batches, " for ", p, " devices");
  for (int device = 0; device < p; ++device) {
    std::vector<Work> forwards, backwards;
    for (int group = 0; group < num_micro_batches / p; ++group)
      for (int part = 0; part < v; ++part)
        for (int i = 0; i < p; ++i) {
          forwards.push_back({part * p + device, group * p + i});
          backwards.push_back({(v - 1 - part) * p + device, group * p + i});
        }
    const int warm_up = v == 1 ? p - device - 1 : 2 * (p - device - 1) + (v - 1) * p;
    alternate(plan.actions[static_cast<std::size_t>(device)], forwards, backwards,
              static_cast<std::size_t>(warm_up));
  }
  return plan;
}

PipelinePlan zero_bubble(int num_devices, int num_micro_batches) {
  const int m = num_micro_batches;
  PipelinePlan plan = empty_pipeline_plan("zero_bubble", num_devices, 1, m);
  for (int device = 0; device < num_devices; ++device) {
    auto& actions = plan.actions[static_cast<std::size_t>(device)];
    int num_forwards = 0, num_weights = 0;
    const auto add_forward = [&] {
      if (num_forwards < m) actions.push_back({forward, device, num_forwards++});
    };
    const auto add_weight = [&] { actions.push_back({backward_weight, device, num_weights++}); };
    for (int i = 0; i < num_devices - device; ++i) add_forward();
    for (int b = 0; b < m; ++b) {
      actions.push_back({backward_input, device, b});
      if (b >= device) add_weight();
      add_forward();
    }
    while (num_weights < m) add_weight();
  }
  return plan;
}

namespace {

using Make = PipelinePlan(int num_devices, int stages_per_device, int num_micro_batches);

enum class StagesPerDevice { one, several };

struct Schedule {
  const char* name;
  StagesPerDevice stages_per_device;
  Make* make;
};

template <PipelinePlan (*planner)(int, int)>
PipelinePlan one_stage(int num_devices, int, int num_micro_batches) {
  return planner(num_devices, num_micro_batches);
}

constexpr Schedule kSchedules[] = {
    {"gpipe", StagesPerDevice::one, one_stage<gpipe>},
    {"1f1b", StagesPerDevice::one, one_stage<one_forward_one_backward>},
    {"interleaved", StagesPerDevice::several, interleaved},
    {"zero_bubble", StagesPerDevice::one, one_stage<zero_bubble>},
};

const Schedule* find_schedule(const std::string& name) {
  for (const Schedule& known : kSchedules)
    if (known.name == name) return &known;
  return nullptr;
}

// "a, b", of all schedules or of those that take several stages per device.
std::string listed_names(bool all) {
  std::string names;
  for (const Schedule& known : kSchedules)
    if (all || known.stages_per_device == StagesPerDevice::several)
      names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

}  // namespace

std::vector<std::string> pipeline_schedule_names() {
  std::vector<std::string> names;
  for (const Schedule& known : kSchedules) names.emplace_back(known.name);
  return names;
}

bool takes_several_stages(const std::string& schedule) {
  const Schedule* known = find_schedule(schedule);
  return known && known->stages_per_device == StagesPerDevice::several;
}

PipelinePlan make_pipeline_plan(const std::string& schedule, int num_devices, int stages_per_device,
                                int num_micro_batches) {
  const Schedule* const known = find_schedule(schedule);
  require(stages_per_device == 1 || takes_several_stages(schedule), "pipeline: only ",
          listed_names(false), " has several stages per device; got ", stages_per_device, " for ",
          schedule);
  require(known, "pipeline: the schedule must be one of ", listed_names(true), "; got \"", schedule,
          '"');
  return known->make(num_devices, stages_per_device, num_micro_batches);
}

}  // namespace ringrad
