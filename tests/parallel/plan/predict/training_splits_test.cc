// The splits of a number of devices: which exist, which is the best, and which are impossible and
// why.

#include "ringrad/parallel/plan/predict/training_splits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/plan/predict/topology.h"

namespace ringrad {
namespace {

// Layers whose times are proportional to their samples; the third takes twice as long.
std::vector<LayerCost> layers_of(std::int64_t samples, int count = 8) {
  std::vector<LayerCost> layers;
  for (int i = 0; i < count; ++i) {
    const double seconds = 1e-5 * static_cast<double>(samples) * (i == 2 ? 2 : 1);
    layers.push_back({.name = std::to_string(i),
                      .forward_s = seconds,
                      .backward_input_s = seconds,
                      .backward_weight_s = seconds,
                      .parameter_bytes = 1 << 20,
                      .output_bytes = 1000 * samples,
                      .saved_bytes = 4000 * samples});
  }
  return layers;
}

SplitQuestion question_of(int devices, std::int64_t batch) {
  SplitQuestion question;
  question.devices = devices;
  question.batch = batch;
  question.micro_batches = 4;
  question.schedules = pipeline_schedule_names();
  question.layers = [](std::int64_t samples) { return layers_of(samples); };
  question.common.links = named_topology("hosts:1250", 1).links;
  return question;
}

TEST(TrainingSplitsTest, AreAllThatTheNumberOfDevicesHas) {
  std::map<std::int64_t, int> asked;
  SplitQuestion question = question_of(12, 12 * 16);
  question.layers = [&](std::int64_t samples) {
    ++asked[samples];
    return layers_of(samples);
  };
  std::set<std::pair<int, int>> shapes;
  for (const TrainingSplit& split : predict_splits(question)) {
    shapes.insert({split.data, split.pipeline});
    EXPECT_EQ(split.data * split.pipeline, 12);
    EXPECT_EQ(split.data * split.micro_batches * split.samples, question.batch);
    EXPECT_EQ(split.micro_batches, split.pipeline == 1 ? 1 : 4);
    EXPECT_EQ(split.schedule.empty(), split.pipeline == 1 || split.pipeline == 12);
  }
  EXPECT_EQ(shapes.size(), 6u);  // 1 2 3 4 6 12
  for (const auto& [samples, times] : asked) EXPECT_EQ(times, 1) << samples;
}

TEST(TrainingSplitsTest, TheFastestIsTheLeastOfThoseThatCanBe) {
  for (const int devices : {1, 2, 8, 24}) {
    const auto splits = predict_splits(question_of(devices, devices * 64));
    const int best = fastest_split(splits);
    ASSERT_GE(best, 0);
    for (const TrainingSplit& split : splits) {
      if (!split.refused.empty()) continue;
      EXPECT_GE(split.prediction.step_s, splits[static_cast<std::size_t>(best)].prediction.step_s);
      EXPECT_GT(split.prediction.step_s, 0);
    }
  }
  EXPECT_EQ(fastest_split({}), -1);
}

TEST(TrainingSplitsTest, SayWhyTheyCannotBe) {
  const auto reason = [](const SplitQuestion& question, int pipeline, const std::string& schedule) {
    for (const TrainingSplit& split : predict_splits(question))
      if (split.pipeline == pipeline && (split.schedule == schedule || split.schedule.empty()))
        return split.refused;
    return std::string("no such split");
  };
  const SplitQuestion question = question_of(16, 16 * 16);
  EXPECT_EQ(reason(question, 4, "1f1b"), "");
  EXPECT_NE(reason(question, 16, "").find("a layer per device; got 8"), std::string::npos);
  EXPECT_NE(reason(question, 8, "interleaved").find("got"),
            std::string::npos);  // 16 stages, 8 layers
  EXPECT_NE(reason(question_of(16, 250), 1, "").find("got 250 and 16"), std::string::npos);
  SplitQuestion small = question;
  small.memory_limit_bytes = 8 << 20;  // parameters and gradients alone need 16 MiB and the state 8
  EXPECT_NE(reason(small, 1, ""), "");
  EXPECT_EQ(reason(small, 8, "1f1b"), "");
  for (const TrainingSplit& split : predict_splits(small)) {
    if (split.refused.empty()) {
      EXPECT_LE(split.prediction.most_memory_bytes(), small.memory_limit_bytes);
    }
  }
}

TEST(TrainingSplitsTest, CoverTenThousandDevices) {
  SplitQuestion question = question_of(10'000, 80'000);
  question.micro_batches = 8;
  question.schedules = {"1f1b"};
  question.layers = [](std::int64_t samples) { return layers_of(samples, 50); };
  const auto splits = predict_splits(question);
  EXPECT_EQ(splits.size(), 25u);
  EXPECT_GE(fastest_split(splits), 0);
}

// Where devices copy messages themselves, a cut must avoid these copies, whatever the links cost.
TEST(TrainingSplitsTest, CutsAreMadeByWhatMessagesCost) {
  SplitQuestion question = question_of(2, 64);
  question.schedules = {"1f1b"};
  question.layers = [](std::int64_t) {
    std::vector<LayerCost> layers(4, {.name = "layer", .forward_s = 1, .output_bytes = 1000});
    layers[0].output_bytes = 1;
    return layers;
  };
  question.common.links = {};
  EXPECT_EQ(predict_splits(question)[1].starts, (std::vector<std::size_t>{0, 2}));
  question.common.copies = LinkCost{.beta_s_per_byte = 1};
  EXPECT_EQ(predict_splits(question)[1].starts, (std::vector<std::size_t>{0, 1}));
}

TEST(TrainingSplitsTest, RefuseWhatMakesNoSense) {
  const auto expect_refused = [](auto change) {
    SplitQuestion question = question_of(8, 256);
    change(question);
    EXPECT_THROW(predict_splits(question), std::invalid_argument);
  };
  expect_refused([](SplitQuestion& q) { q.devices = 0; });
  expect_refused([](SplitQuestion& q) { q.batch = 0; });
  expect_refused([](SplitQuestion& q) { q.micro_batches = 0; });
  expect_refused([](SplitQuestion& q) { q.interleaved_stages = 0; });
  expect_refused([](SplitQuestion& q) { q.memory_limit_bytes = -1; });
  expect_refused([](SplitQuestion& q) { q.schedules = {"2f2b"}; });
  expect_refused([](SplitQuestion& q) { q.common.contention = {0}; });
  expect_refused([](SplitQuestion& q) { q.common.links.within_host.alpha_s = -1; });
}

}  // namespace
}  // namespace ringrad
