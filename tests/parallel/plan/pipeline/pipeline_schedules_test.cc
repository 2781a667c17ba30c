// Every schedule for every p up to 8, m up to 16 and v up to 4: proved, with the memory and the
// bubble of its formula.

#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "ringrad/parallel/plan/pipeline/pipeline_check.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"

namespace ringrad {
namespace {

using enum PipelineOp;

// Calls visit(plan) with its messages, for all sizes of the schedule.
void for_every_plan(const std::function<void(const PipelinePlan&)>& visit) {
  for (const std::string& schedule : pipeline_schedule_names())
    for (int p = 1; p <= 8; ++p)
      for (int m = 1; m <= 16; ++m)
        for (int v = 1; v <= (takes_several_stages(schedule) ? 4 : 1); ++v) {
          if (takes_several_stages(schedule) && m % p != 0) continue;
          visit(with_messages(make_pipeline_plan(schedule, p, v, m)));
        }
}

TEST(PipelineSchedulesTest, AllAreProvedWithTwoSlotsPerChannel) {
  for_every_plan([](const PipelinePlan& plan) {
    const auto wrong = pipeline_check(plan, 2);
    EXPECT_FALSE(wrong) << *wrong << '\n' << plan;
  });
}

// Other schedules have tests of their own.
TEST(PipelineSchedulesTest, KeepAsManyMicroBatchesAsTheirFormulaSays) {
  const std::set<std::string> with_formula = {"gpipe", "1f1b", "interleaved", "zero_bubble"};
  for_every_plan([&](const PipelinePlan& plan) {
    if (!with_formula.contains(plan.schedule)) return;
    const int p = plan.num_devices, m = plan.num_micro_batches, v = plan.num_stages / p;
    const std::vector<int> peaks = peak_kept(plan);
    for (int device = 0; device < p; ++device) {
      SCOPED_TRACE(::testing::Message() << plan.schedule << " p " << p << " m " << m << " v " << v
                                        << " device " << device);
      const int formula = plan.schedule == "gpipe"         ? m
                          : plan.schedule == "zero_bubble" ? std::min(m, p)
                          : v == 1                         ? std::min(m, p - device)
                                   : std::min(m * v, 2 * (p - device - 1) + (v - 1) * p + 1);
      EXPECT_EQ(peaks[static_cast<std::size_t>(device)], formula);
    }
  });
}

// Backward takes two units for forward's one.
TEST(PipelineSchedulesTest, BubblesAreThoseOfTheory) {
  for (const int p : {1, 2, 4, 8})
    for (const int m : {8, 16}) {
      const auto bubble = [&](const std::string& schedule, int v = 1) {
        return pipeline_times(with_messages(make_pipeline_plan(schedule, p, v, m)), {}).bubble;
      };
      const double waits = p - 1;
      EXPECT_NEAR(bubble("gpipe"), 3 * waits / (3 * m + 3 * waits), 1e-9) << p << ' ' << m;
      EXPECT_NEAR(bubble("1f1b"), 3 * waits / (3 * m + 3 * waits), 1e-9) << p << ' ' << m;
      for (const int v : {2, 4})
        EXPECT_NEAR(bubble("interleaved", v), 3 * waits / (3 * m * v + 3 * waits), 1e-9)
            << p << ' ' << m << ' ' << v;
      EXPECT_NEAR(bubble("zero_bubble"), waits / (3 * m + waits), 1e-9) << p << ' ' << m;
    }
}

TEST(PipelineSchedulesTest, MessagesTakeTimeButNoDevicesTime) {
  const PipelinePlan plan = with_messages(gpipe(2, 1));
  EXPECT_DOUBLE_EQ(pipeline_times(plan, {}).total_s, 6);
  EXPECT_DOUBLE_EQ(pipeline_times(plan, {.message_s = {0.5}}).total_s, 7);
  EXPECT_DOUBLE_EQ(pipeline_times(plan, {.forward_s = {1, 3}}).total_s, 8);
}

TEST(PipelineSchedulesTest, RefuseMessagesTwiceAndAStageWithoutBytes) {
  const PipelinePlan plan = with_messages(gpipe(2, 1));
  EXPECT_THROW(with_messages(plan), std::invalid_argument);
  EXPECT_THROW(peak_kept_bytes(plan, {1}), std::invalid_argument);
}

TEST(PipelineSchedulesTest, PrintAsALinePerDevice) {
  std::ostringstream text;
  text << one_forward_one_backward(2, 3) << zero_bubble(2, 2);
  EXPECT_EQ(text.str(),
            "1f1b: 2 stages on 2 devices, 3 micro-batches\n"
            "device 0: F0.0 F0.1 B0.0 F0.2 B0.1 B0.2\n"
            "device 1: F1.0 B1.0 F1.1 B1.1 F1.2 B1.2\n"
            "zero_bubble: 2 stages on 2 devices, 2 micro-batches\n"
            "device 0: F0.0 F0.1 I0.0 W0.0 I0.1 W0.1\n"
            "device 1: F1.0 I1.0 F1.1 I1.1 W1.0 W1.1\n");
}

TEST(PipelineSchedulesTest, WrongNumbersAreNamed) {
  const auto expect_refused = [](const std::string& schedule, int p, int v, int m,
                                 const std::string& text) {
    try {
      make_pipeline_plan(schedule, p, v, m);
      ADD_FAILURE() << "not refused: " << schedule;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  expect_refused("gpipe", 0, 1, 4, "must be positive; got 0, 1 and 4");
  expect_refused("interleaved", 4, 2, 6, "got 6 for 4 devices");
  expect_refused("1f1b", 4, 2, 8, "got 2 for 1f1b");
  expect_refused("2f2b", 4, 1, 8, "must be one of gpipe, 1f1b, interleaved, zero_bubble");
  expect_refused("2f2b", 4, 1, 8, "; got \"2f2b\"");
}

// --- Broken plans ------------------------------------------------------------------------------

void expect_wrong(const PipelinePlan& plan, PlanFault fault, const std::string& text,
                  int slots = 2) {
  const auto wrong = pipeline_check(plan, slots);
  ASSERT_TRUE(wrong) << plan;
  EXPECT_EQ(wrong->fault, fault) << *wrong;
  EXPECT_NE(wrong->text.find(text), std::string::npos) << *wrong;
}

TEST(PipelineCheckTest, CounterExamplesNameDeviceAndAction) {
  const PipelinePlan good = with_messages(one_forward_one_backward(2, 2));
  PipelinePlan plan = good;
  plan.actions[0].pop_back();
  expect_wrong(plan, PlanFault::wrong_result, "got stage 0 without backward of micro-batch 1");
  plan = good;
  std::swap(plan.actions[1][0], plan.actions[1][1]);
  expect_wrong(plan, PlanFault::no_value, "device 1, action 0, forward stage 1 micro-batch 0");
  plan = good;
  plan.actions[0].insert(plan.actions[0].begin(), {backward, 0, 0});
  expect_wrong(plan, PlanFault::no_value, "its forward pass must come before");
  plan = good;
  plan.actions[0].insert(plan.actions[0].begin() + 1, {forward, 0, 0});
  expect_wrong(plan, PlanFault::duplicate, "must be computed once");
  plan = good;
  plan.actions[0][0].stage = 1;
  expect_wrong(plan, PlanFault::malformed, "a stage of its device");
  plan = good;
  plan.num_stages = 3;
  expect_wrong(plan, PlanFault::malformed, "a multiple of devices");
}

TEST(PipelineCheckTest, MessagesOutOfOrderAndCyclesAreFound) {
  PipelinePlan plan = empty_pipeline_plan("crossed", 2, 1, 2);
  plan.actions[0] = {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}};
  plan.actions[1] = {{forward, 1, 1}, {backward, 1, 1}, {forward, 1, 0}, {backward, 1, 0}};
  expect_wrong(with_messages(plan), PlanFault::unmatched, "in the order of sending");
  // Device 0 needs the gradient of micro-batch 0 before it computes 1, device 1 the reverse.
  plan.schedule = "cyclic";
  plan.actions[0] = {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}};
  plan.actions[1] = {{forward, 1, 0}, {forward, 1, 1}, {backward, 1, 0}, {backward, 1, 1}};
  expect_wrong(with_messages(plan), PlanFault::deadlock, "waits forever");
}

// GPipe over two devices with room for one message, whose receiver computes first: the third
// message has no place, which is a wait and not a fault.
TEST(PipelineCheckTest, FullChannelsMakeTheSenderWait) {
  EXPECT_FALSE(pipeline_check(with_messages(gpipe(2, 8)), 1));
}

// If any one action is left out, doubled or exchanged with its successor, the checker finds it, or
// the plan is still right.
TEST(PipelineCheckTest, MutationsAreFound) {
  for (const std::string& schedule : pipeline_schedule_names()) {
    const PipelinePlan good =
        with_messages(make_pipeline_plan(schedule, 3, takes_several_stages(schedule) ? 2 : 1, 3));
    for (std::size_t device = 0; device < good.actions.size(); ++device)
      for (std::size_t i = 0; i < good.actions[device].size(); ++i) {
        PipelinePlan plan = good;
        auto& actions = plan.actions[device];
        actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_TRUE(pipeline_check(plan, 2)) << schedule << " without " << good.actions[device][i];
        actions = good.actions[device];
        actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(i), actions[i]);
        EXPECT_TRUE(pipeline_check(plan, 2)) << schedule << " twice " << actions[i];
      }
  }
}

}  // namespace
}  // namespace ringrad
