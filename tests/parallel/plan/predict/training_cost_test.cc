// Compares predictions with results by hand, and checks what must hold for any prediction.

#include "ringrad/parallel/plan/predict/training_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "ringrad/parallel/plan/pipeline/pipeline_check.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/plan/predict/collective_cost.h"
#include "ringrad/parallel/plan/predict/topology.h"

namespace ringrad {
namespace {

constexpr std::int64_t kParameters = 1 << 20, kOutput = 1 << 16, kSaved = 1 << 18;

std::vector<LayerCost> equal_layers(int count) {
  return std::vector<LayerCost>(static_cast<std::size_t>(count), {.name = "layer",
                                                                  .forward_s = 1e-3,
                                                                  .backward_input_s = 1e-3,
                                                                  .backward_weight_s = 1e-3,
                                                                  .parameter_bytes = kParameters,
                                                                  .output_bytes = kOutput,
                                                                  .saved_bytes = kSaved});
}

// Equal stages of equal layers; links without cost.
TrainingSetup setup_of(int layers, int data, int pipeline, int micro_batches = 1,
                       const std::string& schedule = "1f1b", int stages_per_device = 1) {
  TrainingSetup setup;
  setup.layers = equal_layers(layers);
  setup.data = data;
  setup.pipeline = pipeline;
  setup.stages_per_device = stages_per_device;
  setup.micro_batches = micro_batches;
  setup.schedule = schedule;
  setup.starts.clear();
  const int stages = pipeline * stages_per_device;
  for (int s = 0; s < stages; ++s)
    setup.starts.push_back(static_cast<std::size_t>(s * layers / stages));
  setup.optimizer_s_per_byte = 1e-10;
  return setup;
}

TrainingSetup with_links(TrainingSetup setup, const std::string& topology = "hosts:1250") {
  setup.links = named_topology(topology, 1).links;
  return setup;
}

double step_s(const TrainingSetup& setup) { return predict_step(setup).step_s; }

// --- By hand -----------------------------------------------------------------------------------

TEST(TrainingCostTest, OneDeviceTakesTheSumOfItsParts) {
  TrainingSetup setup = with_links(setup_of(8, 1, 1, 3));
  setup.other_s = 5e-3;
  const TrainingPrediction prediction = predict_step(setup);
  EXPECT_NEAR(prediction.compute_s, 3 * 8 * 3e-3, 1e-12);
  EXPECT_NEAR(prediction.optimizer_s, 8 * kParameters * 1e-10, 1e-12);
  EXPECT_NEAR(prediction.step_s, prediction.compute_s + prediction.optimizer_s + 5e-3, 1e-12);
  EXPECT_NEAR(prediction.bubble, 0, 1e-12);
  EXPECT_EQ(prediction.communication_s, 0);
  EXPECT_EQ(prediction.all_reduce, "");
  EXPECT_EQ(prediction.bottleneck, "computation");
}

TEST(TrainingCostTest, LinksThatCostNothingLeaveTheBubblesOfTheory) {
  for (const int p : {2, 4, 8})
    for (const int m : {8, 16}) {
      const auto bubble = [&](const std::string& schedule, int v = 1) {
        return predict_step(setup_of(16 * v, 1, p, m, schedule, v)).bubble;
      };
      const double waits = p - 1;
      EXPECT_NEAR(bubble("gpipe"), waits / (m + waits), 1e-9);
      EXPECT_NEAR(bubble("1f1b"), waits / (m + waits), 1e-9);
      EXPECT_NEAR(bubble("interleaved", 2), waits / (2 * m + waits), 1e-9);
      EXPECT_NEAR(bubble("zero_bubble"), waits / (3 * m + waits), 1e-9);
    }
}

TEST(TrainingCostTest, ReplicasOnLinksThatCostNothingAreOneDevice) {
  for (const int data : {2, 8, 1000})
    for (const int pipeline : {1, 2, 4})
      EXPECT_DOUBLE_EQ(step_s(setup_of(8, data, pipeline, 4)), step_s(setup_of(8, 1, pipeline, 4)));
}

// A bucket per layer; a reduction takes `r`, a layer's backward pass 2 ms.
TEST(TrainingCostTest, BucketsAreReducedBesideBackwardOneAfterTheOther) {
  for (const double r : {1e-3, 5e-3}) {
    TrainingSetup setup = setup_of(4, 2, 1);
    setup.optimizer_s_per_byte = 0;
    setup.links.within_host.alpha_s = r / 2;  // two steps between two ranks
    setup.all_reduces = {"ring"};
    setup.bucket_bytes = 1;
    const double compute = 4 * 3e-3, first_ready = 4e-3 + 2e-3;
    const double stream_end = std::max(compute + r, first_ready + 4 * r);
    TrainingPrediction prediction = predict_step(setup);
    EXPECT_NEAR(prediction.step_s, stream_end, 1e-12);
    EXPECT_NEAR(prediction.communication_s, 4 * r, 1e-12);
    EXPECT_NEAR(prediction.exposed_s, stream_end - compute, 1e-12);
    EXPECT_EQ(prediction.all_reduce, "ring");
    EXPECT_EQ(prediction.bottleneck, r > 4e-3 ? "communication" : "computation");

    setup.overlap = false;
    prediction = predict_step(setup);
    EXPECT_NEAR(prediction.step_s, compute + 4 * r, 1e-12);
    EXPECT_EQ(prediction.overlap(), 0);
    setup.overlap = true;

    setup.bucket_bytes =
        4 * kParameters;  // layer 3 alone, of a quarter; the others when layer 0 is done
    EXPECT_NEAR(step_s(setup), compute + r, 1e-12);
  }
}

TEST(TrainingCostTest, OnlyTheLastMicroBatchIsReduced) {
  const TrainingSetup one = with_links(setup_of(8, 8, 1, 1)),
                      four = with_links(setup_of(8, 8, 1, 4));
  EXPECT_NEAR(step_s(four) - step_s(one), 3 * 8 * 3e-3, 1e-9);
  EXPECT_DOUBLE_EQ(predict_step(four).communication_s, predict_step(one).communication_s);
}

TEST(TrainingCostTest, MessagesOfAPipelineAddUpFromStageToStage) {
  TrainingSetup setup = setup_of(4, 1, 4, 1);
  const double without = step_s(setup);
  setup.links.within_host = {1e-4, 1e-9};
  EXPECT_NEAR(step_s(setup) - without, 6 * (1e-4 + kOutput * 1e-9), 1e-12);  // 3 there, 3 back
  setup.links.between_hosts = {1e-2, 0};
  setup.links.ranks_per_host = 2;  // devices 0 1 | 2 3
  EXPECT_NEAR(step_s(setup) - without, 4 * (1e-4 + kOutput * 1e-9) + 2 * 1e-2, 1e-12);
  setup.data = 2;  // all neighbours are on other hosts, replicas are not
  setup.all_reduces = {"ring"};
  setup.bucket_bytes = 1;
  setup.links.within_host = {};
  EXPECT_NEAR(step_s(setup) - without, 6 * 1e-2, 1e-12);
}

TEST(TrainingCostTest, MemoryIsParametersGradientsStateAndWhatIsKept) {
  for (const std::string& schedule : pipeline_schedule_names()) {
    const int v = takes_several_stages(schedule) ? 2 : 1;
    TrainingSetup setup = setup_of(16, 1, 4, 8, schedule, v);
    setup.state_bytes_per_byte = 2;
    const std::vector<int> kept = peak_kept(make_pipeline_plan(schedule, 4, v, 8));
    const TrainingPrediction prediction = predict_step(setup);
    ASSERT_EQ(prediction.memory_bytes.size(), 4u);
    for (std::size_t d = 1; d < 4; ++d)
      EXPECT_EQ(prediction.memory_bytes[d],
                4 * 4 * kParameters + kept[d] * (4 / v * kSaved + kOutput));
    if (v == 1) {
      EXPECT_EQ(prediction.memory_bytes[0], 4 * 4 * kParameters + kept[0] * 4 * kSaved);
    }
    setup.data = 64;
    EXPECT_EQ(predict_step(setup).memory_bytes, prediction.memory_bytes);
  }
  // Stages of one device that keep different amounts: device 1 has layers 1 and 3.
  TrainingSetup setup = setup_of(4, 1, 2, 2, "interleaved", 2);
  setup.layers[3].saved_bytes = 100 * kSaved;
  EXPECT_GE(predict_step(setup).memory_bytes[1], 3 * 2 * kParameters + 100 * kSaved);
  EXPECT_LT(predict_step(setup).memory_bytes[0], 3 * 2 * kParameters + 5 * kSaved);
}

TEST(TrainingCostTest, ContentionSlowsComputationOnly) {
  TrainingSetup setup = with_links(setup_of(8, 4, 2, 4));
  const TrainingPrediction before = predict_step(setup);
  setup.contention = {2.5};
  const TrainingPrediction after = predict_step(setup);
  EXPECT_NEAR(after.compute_s, 2.5 * before.compute_s, 1e-12);
  EXPECT_NEAR(after.optimizer_s, 2.5 * before.optimizer_s, 1e-12);
  EXPECT_DOUBLE_EQ(after.communication_s, before.communication_s);
}

// Two devices on one processor: each runs alone, at full speed, in the other's bubbles.
TEST(TrainingCostTest, WaitingDevicesLeaveTheirProcessorsToOthers) {
  TrainingSetup setup = setup_of(8, 1, 2, 4);
  setup.optimizer_s_per_byte = 0;
  setup.contention = {1, 2};
  const double work_s = 8 * 3e-3 * 4;
  EXPECT_NEAR(step_s(setup), work_s, 1e-12);
  setup.data = 2;  // four devices, two or all of which compute at a time
  setup.contention = {1, 1, 1, 2};
  const double shared_s = step_s(setup);
  EXPECT_NEAR(shared_s, work_s, 1e-12);
  setup.contention = {1, 1, 2};
  EXPECT_DOUBLE_EQ(step_s(setup), shared_s);  // three never do
}

TEST(TrainingCostTest, CopiesTakeTheTimeOfDevices) {
  TrainingSetup setup = setup_of(8, 1, 2, 1);
  const double before_s = step_s(setup);
  setup.copies = LinkCost{.alpha_s = 1e-4, .beta_s_per_byte = 1e-9};
  const double copy_s = 1e-4 + 1e-9 * kOutput;  // of an activation and of a gradient, by two
  EXPECT_NEAR(step_s(setup), before_s + 4 * copy_s, 1e-12);
  setup.links.within_host.alpha_s = 1;  // links then carry nothing
  EXPECT_NEAR(step_s(setup), before_s + 4 * copy_s, 1e-12);
  setup.pipeline = 1;
  setup.starts = {0};
  EXPECT_NEAR(step_s(setup), step_s(setup_of(8, 1, 1)), 1e-12);
}

// --- What holds of any prediction --------------------------------------------------------------

std::vector<TrainingSetup> many_setups() {
  std::vector<TrainingSetup> setups;
  for (const auto& [data, pipeline] : {std::pair{8, 1}, {1, 8}, {4, 2}, {2, 4}, {16, 4}, {5, 3}})
    for (const std::string& schedule : pipeline_schedule_names())
      setups.push_back(with_links(setup_of(24, data, pipeline, pipeline == 3 ? 6 : 8, schedule,
                                           takes_several_stages(schedule) ? 2 : 1)));
  return setups;
}

TEST(TrainingCostTest, NothingThatGetsSlowerMakesAStepFaster) {
  const std::function<void(TrainingSetup&)> changes[] = {
      [](TrainingSetup& s) { s.links.within_host.alpha_s *= 3; },
      [](TrainingSetup& s) { s.links.within_host.beta_s_per_byte *= 3; },
      [](TrainingSetup& s) { s.links.between_hosts.alpha_s *= 3; },
      [](TrainingSetup& s) { s.links.between_hosts.beta_s_per_byte *= 3; },
      [](TrainingSetup& s) { s.links.gamma_s_per_byte *= 3; },
      [](TrainingSetup& s) { s.layers[11].forward_s *= 3; },
      [](TrainingSetup& s) { s.layers[5].backward_weight_s *= 3; },
      [](TrainingSetup& s) { s.overlap = false; },
      [](TrainingSetup& s) { s.optimizer_s_per_byte *= 3; },
      [](TrainingSetup& s) { s.micro_batches *= 2; },
  };
  for (TrainingSetup setup : many_setups()) {
    setup.bucket_bytes = 4 * kParameters;  // what fits would change with the links
    const double before = step_s(setup);
    for (std::size_t c = 0; c < std::size(changes); ++c) {
      TrainingSetup changed = setup;
      changes[c](changed);
      EXPECT_GE(step_s(changed), before * (1 - 1e-12)) << "change " << c << ", " << setup.schedule;
    }
  }
}

TEST(TrainingCostTest, PartsAddUpToTheStep) {
  for (const TrainingSetup& setup : many_setups()) {
    const TrainingPrediction prediction = predict_step(setup);
    const double parts = prediction.compute_s + prediction.exposed_s + prediction.optimizer_s;
    EXPECT_LE(parts, prediction.step_s * (1 + 1e-12));
    EXPECT_LE(prediction.exposed_s, prediction.communication_s * (1 + 1e-12) + 1e-15);
    EXPECT_GE(prediction.overlap(), 0);
    EXPECT_LE(prediction.overlap(), 1);
    if (setup.pipeline == 1) {
      EXPECT_NEAR(parts, prediction.step_s, 1e-12);
    }
  }
}

TEST(TrainingCostTest, UnlikeStagesWaitForTheSlowest) {
  TrainingSetup setup = setup_of(4, 1, 4, 64);
  setup.layers[2].forward_s = 5e-3;
  const TrainingPrediction prediction = predict_step(setup);
  EXPECT_GT(prediction.step_s, 64 * 7e-3);  // stage 2 alone
  EXPECT_LT(prediction.step_s, (64 + 4) * 7e-3);
}

TEST(TrainingCostTest, PredictsTenThousandDevicesInEverySplit) {
  for (const int pipeline : {1, 2, 8, 16, 80, 1000}) {
    const TrainingSetup setup =
        with_links(setup_of(1000, 10'000 / pipeline, pipeline, pipeline == 1 ? 1 : 64));
    const TrainingPrediction prediction = predict_step(setup);
    EXPECT_GT(prediction.step_s, prediction.compute_s);
    EXPECT_EQ(prediction.memory_bytes.size(), static_cast<std::size_t>(pipeline));
    EXPECT_NE(prediction.all_reduce, "");
  }
}

// --- Errors ------------------------------------------------------------------------------------

TEST(TrainingCostTest, RefusesWhatMakesNoSense) {
  const auto expect_refused = [](const std::string& text,
                                 const std::function<void(TrainingSetup&)>& change) {
    TrainingSetup setup = with_links(setup_of(8, 2, 2, 4));
    change(setup);
    try {
      predict_step(setup);
      ADD_FAILURE() << "not refused: " << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  expect_refused("there must be a layer", [](auto& s) { s.layers.clear(); });
  for (const double wrong : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    expect_refused("got layer \"layer\"", [&](auto& s) { s.layers[3].forward_s = wrong; });
  expect_refused("no cost of a layer", [](auto& s) { s.layers[0].saved_bytes = -1; });
  for (int TrainingSetup::*count :
       {&TrainingSetup::data, &TrainingSetup::pipeline, &TrainingSetup::stages_per_device,
        &TrainingSetup::micro_batches})
    expect_refused("must be positive", [&](auto& s) { s.*count = 0; });
  expect_refused("2^31 - 1 devices; got 2000000000, 2", [](auto& s) { s.data = 2'000'000'000; });
  expect_refused("2^22 forward passes", [](auto& s) { s.micro_batches = 2'000'000'000; });
  expect_refused("got 2 for 4", [](auto& s) { s.pipeline = 4; });
  expect_refused("`starts` must begin with 0", [](auto& s) { s.starts = {1, 4}; });
  expect_refused("`starts` must begin with 0", [](auto& s) { s.starts = {0, 0}; });
  expect_refused("got 8 for stage 1 of 8 layers", [](auto& s) { s.starts = {0, 8}; });
  expect_refused("the schedule must be one of", [](auto& s) { s.schedule = "2f2b"; });
  expect_refused("only interleaved has several stages", [](auto& s) {
    s.stages_per_device = 2;
    s.starts = {0, 2, 4, 6};
  });
  expect_refused("a multiple of devices as micro-batches", [](auto& s) {
    s.schedule = "interleaved";
    s.micro_batches = 3;
  });
  expect_refused("contention must be at least 1", [](auto& s) { s.contention = {1, 0.5}; });
  expect_refused("contention must be given", [](auto& s) { s.contention.clear(); });
  expect_refused("must not be negative", [](auto& s) { s.optimizer_s_per_byte = -1; });
  expect_refused("must not be negative", [](auto& s) { s.bucket_bytes = -1; });
  expect_refused("copies must not cost less", [](auto& s) { s.copies = {1e-6, -1}; });
  expect_refused("alpha, beta and gamma", [](auto& s) { s.links.within_host.alpha_s = NAN; });
  expect_refused("the algorithm must be one of", [](auto& s) { s.all_reduces = {"star"}; });
}

}  // namespace
}  // namespace ringrad
