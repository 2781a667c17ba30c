#include "ringrad/parallel/plan/file/pipeline_json.h"

#include <gtest/gtest.h>

#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/parallel/plan/refused.h"

namespace ringrad {
namespace {

PipelineRun planned_run(const std::string& schedule, int devices, int stages_per_device,
                        const PipelineCosts& costs = {}) {
  const PipelinePlan plan =
      with_messages(make_pipeline_plan(schedule, devices, stages_per_device, 2 * devices));
  return {plan, pipeline_times(plan, costs)};
}

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  return text.replace(text.find(old), old.size(), by);
}

TEST(PipelineJsonTest, EveryRunComesBackEqual) {
  const PipelineCosts costs{.forward_s = {0.1, 1. / 3}, .message_s = {0.01}};
  for (const std::string& schedule : pipeline_schedule_names()) {
    const PipelineRun run = planned_run(schedule, 3, takes_several_stages(schedule) ? 2 : 1, costs);
    const PipelineRun back = pipeline_run_from_json(to_json(run));
    EXPECT_EQ(back.plan, run.plan);
    EXPECT_EQ(back.times.total_s, run.times.total_s);
    EXPECT_EQ(back.times.bubble, run.times.bubble);
    for (std::size_t d = 0; d < run.times.spans.size(); ++d)
      for (std::size_t i = 0; i < run.times.spans[d].size(); ++i) {
        EXPECT_EQ(back.times.spans[d][i].start_s, run.times.spans[d][i].start_s);
        EXPECT_EQ(back.times.spans[d][i].end_s, run.times.spans[d][i].end_s);
      }
  }
}

TEST(PipelineJsonTest, WhatIsWrongIsNamed) {
  const std::string good = to_json(planned_run("1f1b", 2, 1));
  const auto expect_wrong = [&](const std::string& old, const std::string& by,
                                const std::string& why) {
    expect_refused([&] { pipeline_run_from_json(replaced(good, old, by)); }, why);
  };
  expect_wrong("\"forward\"", "\"sideways\"", "devices[0][0].op must be one of forward, ");
  expect_wrong("\"stage\": 0", "\"stage\": 1",
               "devices[0][0].stage must be one of device 0; got 1");
  expect_wrong("\"micro_batch\": 0", "\"micro_batch\": 4", "micro_batch must be in [0, 4); got 4");
  expect_wrong("\"start_s\": 0.0", "\"start_s\": 9.0", "spans must follow each other");
  expect_wrong("\"start_s\": 0.0", "\"start_s\": \"a\"", "start_s must be a number");
  expect_wrong("\"num_devices\": 2", "\"num_devices\": 0", "must be a multiple of num_devices");
  expect_wrong("\"num_stages\": 2, ", "", "num_stages must be there");
  expect_wrong("\"num_devices\": 2, \"num_stages\": 2",
               "\"num_devices\": 2000000000, \"num_stages\": 2000000000",
               "must have a list per device; got 2 and 2000000000");
  expect_wrong("{", "", "the text must be JSON");
  // Computations on a run would take 16 EB for these.
  expect_wrong("\"num_stages\": 2, \"num_micro_batches\": 4",
               "\"num_stages\": 2000000000, \"num_micro_batches\": 2000000000",
               "must have an action for each stage and micro-batch, 4000000000000000000; got ");
}

// By hand: two devices compute for 3 s and 2 s of 4 s; receiving is waiting.
TEST(PipelineTimesTest, ABubbleIsWhateverIsNotComputed) {
  PipelinePlan plan = empty_pipeline_plan("mine", 2, 1, 1);
  plan.actions = {{{PipelineOp::forward, 0, 0}, {PipelineOp::backward, 0, 0}},
                  {{PipelineOp::recv_activation, 1, 0}, {PipelineOp::forward, 1, 0}}};
  const PipelineTimes times = times_of_spans(plan, {{{0, 1}, {2, 4}}, {{0, 1}, {1, 3}}});
  EXPECT_DOUBLE_EQ(times.total_s, 4);
  EXPECT_DOUBLE_EQ(times.bubble, 1 - 5. / 8);
}

TEST(PipelineTimesTest, RefusesSpansThatAreNotThePlans) {
  const PipelineRun run = planned_run("gpipe", 2, 1);
  auto spans = run.times.spans;
  spans[1].pop_back();
  expect_refused([&] { times_of_spans(run.plan, spans); }, "every action must have a span");
  spans.pop_back();
  expect_refused([&] { times_of_spans(run.plan, spans); },
                 "spans for each device; got those of 1 devices");
}

// A run whose actions took the planned times has these as its means.
TEST(PipelineTimesTest, MeanCostsAreThoseOfTheRun) {
  const PipelineCosts costs{
      .forward_s = {1, 2}, .backward_input_s = {3, 1}, .backward_weight_s = {3, 1}};
  for (const char* schedule : {"1f1b", "zero_bubble"}) {
    const PipelineRun run = planned_run(schedule, 2, 1, costs);
    const PipelineCosts means = mean_costs(run.plan, run.times);
    for (std::size_t stage = 0; stage < 2; ++stage) {
      EXPECT_NEAR(means.forward_s[stage], costs.forward_s[stage], 1e-9);
      EXPECT_NEAR(means.backward_input_s[stage], costs.backward_input_s[stage], 1e-9);
      EXPECT_NEAR(means.backward_weight_s[stage], costs.backward_weight_s[stage], 1e-9);
    }
  }
}

TEST(PipelineJsonTest, ARunComesBackEqualInEveryLocale) {
  const PipelineRun run{with_messages(make_pipeline_plan("1f1b", 1, 1, 1234)), {}};
  const PipelineRun timed{run.plan, pipeline_times(run.plan, {.forward_s = {1234.5}})};
  const testing::ForeignNumbers guard;
  EXPECT_EQ(pipeline_run_from_json(to_json(timed)).plan, run.plan);
}

}  // namespace
}  // namespace ringrad
