// Compares predicted steps with those of simulated GPUs, by the simulated clock: replicas,
// pipelines and both. The simulator has the predictor's constants (TopologyTest), so this test
// checks how a step is composed, not the constants.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "ringrad/autograd/reduce.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/mesh.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/plan/predict/topology.h"
#include "ringrad/parallel/plan/predict/training_cost.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/tests/parallel/train/pipeline/busy_stage.h"

namespace ringrad {
namespace {

constexpr double kMicroseconds = 400;       // a forward pass of a layer
constexpr std::int64_t kWeights = 1 << 21;  // 8 MiB of gradients per layer
constexpr int kMicroBatches = 8;

struct Split {
  int data, pipeline;
  const char* schedule;
};

std::ostream& operator<<(std::ostream& out, const Split& split) {
  return out << split.data << " x " << split.pipeline << ' ' << split.schedule;
}

// The seconds of the last of several steps, on the slowest rank.
double measure(const Split& split) {
  double slowest_s = 0;
  std::mutex mutex;
  run_ranks(split.data * split.pipeline, [&](Communicator& comm) {
    const Device device(DeviceType::cuda, comm.rank());
    const DefaultDeviceGuard guard(device);
    const Mesh mesh(comm, {{"pipeline", split.pipeline}, {"data", split.data}});
    std::vector<std::unique_ptr<testing::BusyStage>> stages;
    std::vector<nn::Module*> modules;
    for (int s = 0; s < split.pipeline; ++s) {
      stages.push_back(std::make_unique<testing::BusyStage>(kMicroseconds, s == 0, kWeights));
      modules.push_back(stages.back().get());
    }
    Pipeline pipeline(modules, mesh.axis("pipeline"),
                      make_pipeline_plan(split.schedule, split.pipeline, 1, kMicroBatches),
                      [](const Tensor& y, const Tensor&) { return mean(y); },
                      {.replicas = &mesh.axis("data")});
    const Tensor x = ones({kMicroBatches, 8});
    double seconds = 0;
    for (int step = 0; step < 3; ++step) {
      comm.all_reduce(zeros({1}));
      synchronize(device);
      const Event begin(current_stream(device), /*timing=*/true);
      pipeline.train_step(x, x);
      const Event end(current_stream(device), /*timing=*/true);
      end.synchronize();
      seconds = Event::milliseconds(begin, end) / 1e3;
    }
    const std::lock_guard lock(mutex);
    slowest_s = std::max(slowest_s, seconds);
  });
  return slowest_s;
}

double predict(const Split& split) {
  const double s = kMicroseconds / 1e6;
  TrainingSetup setup;
  setup.data = split.data;
  setup.pipeline = split.pipeline;
  setup.micro_batches = kMicroBatches;
  setup.schedule = split.schedule;
  setup.links = named_topology("nvlink8", 8).links;
  setup.starts.clear();
  for (int stage = 0; stage < split.pipeline; ++stage) {
    setup.layers.push_back({.name = "busy",
                            .forward_s = s,
                            .backward_input_s = s,
                            .backward_weight_s = s,
                            .parameter_bytes = 4 * kWeights,
                            .output_bytes = 32});
    setup.starts.push_back(static_cast<std::size_t>(stage));
  }
  return predict_step(setup).step_s;
}

class TrainingPredictionTest : public ::testing::TestWithParam<Split> {};

TEST_P(TrainingPredictionTest, IsWithinTenPercentOfTheSimulatedClock) {
  if (num_cuda_devices() < 4 || !is_cuda_simulated()) GTEST_SKIP() << "needs four simulated GPUs";
  EXPECT_NEAR(predict(GetParam()) / measure(GetParam()), 1, 0.1);
}

INSTANTIATE_TEST_SUITE_P(Splits, TrainingPredictionTest,
                         ::testing::Values(Split{1, 1, "gpipe"}, Split{2, 1, "gpipe"},
                                           Split{4, 1, "gpipe"}, Split{1, 2, "1f1b"},
                                           Split{1, 4, "gpipe"}, Split{1, 4, "zero_bubble"},
                                           Split{2, 2, "1f1b"}));

}  // namespace
}  // namespace ringrad
