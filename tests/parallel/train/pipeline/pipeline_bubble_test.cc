// Pipelines on simulated GPUs, by the simulated clock: devices wait as long as theory predicts.
// Stages only take time (busy_stage.h), far more than a message.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/tests/parallel/train/pipeline/busy_stage.h"

namespace ringrad {
namespace {

constexpr double kMicroseconds = 5000;

using testing::BusyStage;

// One step after a first one, in which streams and memory are created.
PipelineTimes measure(const PipelinePlan& plan) {
  PipelineTimes times;
  run_ranks(plan.num_devices, [&](Communicator& comm) {
    const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank()));
    const double us = kMicroseconds * plan.num_devices / plan.num_stages;
    std::vector<std::unique_ptr<BusyStage>> stages;
    std::vector<nn::Module*> modules;
    for (int s = 0; s < plan.num_stages; ++s) {
      stages.push_back(std::make_unique<BusyStage>(us, s == 0));
      modules.push_back(stages.back().get());
    }
    Pipeline pipeline(modules, comm, plan, [](const Tensor& y, const Tensor&) { return mean(y); },
                      {.measure = true});
    const Tensor x = ones({plan.num_micro_batches, 8});
    for (int step = 0; step < 2; ++step) pipeline.train_step(x, x);
    const PipelineTimes all = pipeline.times();
    if (comm.rank() == 0) times = all;
  });
  return times;
}

class PipelineBubbleTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (num_cuda_devices() < 4 || !is_cuda_simulated()) GTEST_SKIP();
  }
};

TEST_P(PipelineBubbleTest, IsTheorysWithinTwoPercentagePoints) {
  constexpr int p = 4, v = 2;
  const int m = GetParam();
  const double waits = 3.0 * (p - 1);
  const auto expect_bubble = [&](const PipelinePlan& plan, double bubble_units) {
    EXPECT_NEAR(measure(plan).bubble, bubble_units / (3.0 * m + bubble_units), 0.02)
        << plan.schedule;
  };
  expect_bubble(gpipe(p, m), waits);
  expect_bubble(one_forward_one_backward(p, m), waits);
  expect_bubble(interleaved(p, v, m), waits / v);
  expect_bubble(zero_bubble(p, m), waits / 3);
}

TEST_P(PipelineBubbleTest, OfZeroBubbleIsUnderHalfOfOneForwardOneBackwards) {
  EXPECT_LT(measure(zero_bubble(4, GetParam())).bubble,
            0.5 * measure(one_forward_one_backward(4, GetParam())).bubble);
}

TEST_P(PipelineBubbleTest, ActionsTakePlaceWhenThePlanSaysSo) {
  const PipelinePlan plan = with_messages(one_forward_one_backward(4, GetParam()));
  const double unit_s = kMicroseconds / 1e6;
  const PipelineTimes planned = pipeline_times(
      plan, {.forward_s = {unit_s}, .backward_input_s = {unit_s}, .backward_weight_s = {unit_s}});
  const PipelineTimes measured = measure(plan);
  EXPECT_NEAR(measured.total_s / planned.total_s, 1, 0.03);
  for (std::size_t device = 0; device < plan.actions.size(); ++device)
    for (std::size_t i = 0; i < plan.actions[device].size(); ++i)
      if (is_compute(plan.actions[device][i].op)) {
        EXPECT_NEAR(measured.spans[device][i].start_s, planned.spans[device][i].start_s,
                    0.03 * planned.total_s)
            << "device " << device << ": " << plan.actions[device][i];
      }
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, PipelineBubbleTest, ::testing::Values(8, 16));

}  // namespace
}  // namespace ringrad
