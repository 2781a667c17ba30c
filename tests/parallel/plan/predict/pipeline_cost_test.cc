// Times of pipelines whose devices slow each other down, compared with runs by hand and with what
// must hold for any run.

#include "ringrad/parallel/plan/predict/pipeline_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"

namespace ringrad {
namespace {

std::vector<PipelinePlan> many_plans() {
  std::vector<PipelinePlan> plans;
  for (const std::string& schedule : pipeline_schedule_names())
    for (const int p : {1, 2, 3, 4})
      plans.push_back(with_messages(
          make_pipeline_plan(schedule, p, takes_several_stages(schedule) ? 2 : 1, 2 * p)));
  return plans;
}

const PipelineCosts kUnlikeStages = {
    .forward_s = {1, 3, 0.5, 2}, .backward_input_s = {2, 0.25}, .backward_weight_s = {1, 4, 2}};

// The same run in small steps of time: every device advances in each step, in no particular order.
double total_in_steps(const PipelinePlan& plan, const PipelineCosts& costs) {
  constexpr double kStep_s = 1.0 / 64;
  struct Progress {
    std::size_t next = 0;
    double left_s = -1;  // of the action at hand; -1: none
  };
  const auto of_stage = [](const std::vector<double>& of, int stage) {
    return of[std::min(static_cast<std::size_t>(stage), of.size() - 1)];
  };
  std::vector<Progress> devices(plan.actions.size());
  std::map<std::tuple<PipelineOp, int, int>, double> arrivals_s;
  double now_s = 0;
  for (;; now_s += kStep_s) {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t d = 0; d < devices.size(); ++d) {
        auto& [next, left_s] = devices[d];
        if (next == plan.actions[d].size()) continue;
        const auto& [op, stage, micro_batch] = plan.actions[d][next];
        const double input_s = of_stage(costs.backward_input_s, stage),
                     weight_s = of_stage(costs.backward_weight_s, stage);
        const bool receives = op == PipelineOp::recv_activation || op == PipelineOp::recv_gradient;
        const bool upwards = op == PipelineOp::send_activation || op == PipelineOp::recv_gradient;
        const int border = upwards ? stage : stage - 1;
        if (left_s < 0) {
          const auto arrival = arrivals_s.find({op, stage, micro_batch});
          if (receives && (arrival == arrivals_s.end() || arrival->second > now_s)) continue;
          left_s = op == PipelineOp::forward           ? of_stage(costs.forward_s, stage)
                   : op == PipelineOp::backward        ? input_s + weight_s
                   : op == PipelineOp::backward_input  ? input_s
                   : op == PipelineOp::backward_weight ? weight_s
                                                       : of_stage(costs.copy_s, border);
        }
        if (left_s > kStep_s * 1e-6) continue;
        if (op == PipelineOp::send_activation)
          arrivals_s[{PipelineOp::recv_activation, stage + 1, micro_batch}] =
              now_s + of_stage(costs.message_s, border);
        if (op == PipelineOp::send_gradient)
          arrivals_s[{PipelineOp::recv_gradient, stage - 1, micro_batch}] =
              now_s + of_stage(costs.message_s, border);
        ++next;
        left_s = -1;
        moves = true;
      }
    }
    const auto busy = std::count_if(devices.begin(), devices.end(),
                                    [](const Progress& device) { return device.left_s > 0; });
    const auto most = std::ssize(costs.contention);
    for (Progress& device : devices)
      if (device.left_s > 0)
        device.left_s -=
            kStep_s / costs.contention[static_cast<std::size_t>(std::min(busy, most)) - 1];
    bool done = true;
    for (std::size_t d = 0; d < devices.size(); ++d)
      done = done && devices[d].next == plan.actions[d].size();
    if (done) return now_s;
  }
}

// Factors are powers of two and costs multiples of a quarter, so steps fall on the ends of actions.
TEST(PipelineCostTest, AgreesWithARunInSmallSteps) {
  for (const PipelinePlan& plan : many_plans()) {
    const PipelineCosts costs = {.forward_s = {1, 3, 2},
                                 .backward_input_s = {2, 1},
                                 .backward_weight_s = {1, 4, 2},
                                 .message_s = {0.5, 1},
                                 .copy_s = {0.25, 0, 0.5},
                                 .contention = {1, 2, 2, 4}};
    EXPECT_NEAR(pipeline_times(plan, costs).total_s, total_in_steps(plan, costs), 1e-9) << plan;
  }
}

// One processor for all devices is never idle, so the time is that of one device that does all the
// work.
TEST(PipelineCostTest, DevicesThatShareOneProcessorTakeTheSumOfTheirWork) {
  for (const PipelinePlan& plan : many_plans()) {
    PipelineCosts costs = kUnlikeStages;
    const PipelineTimes apart = pipeline_times(plan, costs);
    const double work_s = (1 - apart.bubble) * apart.total_s * plan.num_devices;
    for (int devices = 2; devices <= plan.num_devices; ++devices)
      costs.contention.push_back(devices);
    EXPECT_NEAR(pipeline_times(plan, costs).total_s, work_s, 1e-9 * work_s) << plan;
  }
}

TEST(PipelineCostTest, ContentionOfOneDeviceSlowsAllAlike) {
  for (const PipelinePlan& plan : many_plans()) {
    PipelineCosts costs = kUnlikeStages;
    const PipelineTimes before = pipeline_times(plan, costs);
    costs.contention = {2.5};
    const PipelineTimes after = pipeline_times(plan, costs);
    EXPECT_NEAR(after.total_s, 2.5 * before.total_s, 1e-9 * after.total_s) << plan;
    EXPECT_NEAR(after.bubble, before.bubble, 1e-9) << plan;
  }
}

TEST(PipelineCostTest, OnlyTimeTogetherIsSlowed) {
  // F0.1 runs alone for half a second until F1.0's input arrives; both then take 1.5 times as long.
  const PipelinePlan plan = with_messages(gpipe(2, 2));
  const PipelineTimes times = pipeline_times(plan, {.message_s = {0.5}, .contention = {1, 1.5}});
  std::vector<double> ends_s[2];
  for (std::size_t device : {0, 1})
    for (std::size_t i = 0; i < plan.actions[device].size(); ++i)
      if (is_compute(plan.actions[device][i].op))
        ends_s[device].push_back(times.spans[device][i].end_s);
  EXPECT_EQ(ends_s[0], (std::vector<double>{1, 2.25, 9, 11}));
  EXPECT_EQ(ends_s[1], (std::vector<double>{2.75, 3.75, 5.75, 8.5}));
}

TEST(PipelineCostTest, CopiesTakeBothDevicesTime) {
  EXPECT_DOUBLE_EQ(pipeline_times(with_messages(gpipe(2, 1)), {.copy_s = {0.5}}).total_s,
                   6 + 4 * 0.5);
  // Device 0 sends its second activation before it waits: F S F S | R B R B.
  const PipelinePlan plan = with_messages(gpipe(2, 2));
  EXPECT_DOUBLE_EQ(pipeline_times(plan, {.copy_s = {0.5}}).spans[0][3].end_s, 2 * (1 + 0.5));
  EXPECT_DOUBLE_EQ(pipeline_times(plan, {.copy_s = {0.5}}).bubble,
                   1 - 12 / (2 * pipeline_times(plan, {.copy_s = {0.5}}).total_s));
  for (const PipelinePlan& each : many_plans()) {
    const double free_s = pipeline_times(each, {}).total_s,
                 copied_s = pipeline_times(each, {.copy_s = {0.25}}).total_s;
    EXPECT_EQ(copied_s > free_s, each.num_devices > 1) << each;
    EXPECT_GE(copied_s, pipeline_times(each, {.message_s = {0.25}}).total_s) << each;
  }
}

TEST(PipelineCostTest, WrongCostsAndEndlessPlansAreRefused) {
  const auto expect_refused = [](const PipelinePlan& plan, const PipelineCosts& costs) {
    EXPECT_THROW(pipeline_times(plan, costs), std::invalid_argument);
  };
  const PipelinePlan plan = with_messages(gpipe(2, 2));
  expect_refused(plan, {.forward_s = {}});
  expect_refused(plan, {.copy_s = {-1}});
  expect_refused(plan, {.message_s = {NAN}});
  expect_refused(plan, {.contention = {}});
  expect_refused(plan, {.contention = {1, 0.9}});
  expect_refused(plan, {.contention = {INFINITY}});
  expect_refused(plan, {.forward_s = {1e308}});  // ends beyond the range of a double
  expect_refused(plan, {.forward_s = {1e10}, .contention = {1e308}});
  PipelinePlan endless = plan;  // device 1 waits for a message that is never sent
  std::erase_if(endless.actions[0],
                [](const auto& action) { return action.op == PipelineOp::send_activation; });
  expect_refused(endless, {});
  PipelinePlan nowhere = plan;
  nowhere.actions[0].push_back({PipelineOp::recv_gradient, 7, 0});
  expect_refused(nowhere, {});
}

}  // namespace
}  // namespace ringrad
