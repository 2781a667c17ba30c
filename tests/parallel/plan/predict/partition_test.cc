// Compares cuts into stages with all possible cuts, for random models small enough to try them all.
//
// All costs are small whole numbers, so that sums are exact and there are many ties.

#include "ringrad/parallel/plan/predict/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

#include "ringrad/parallel/plan/pipeline/pipeline_check.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"
#include "ringrad/tests/parallel/plan/refused.h"

namespace ringrad {
namespace {

using Starts = std::vector<std::size_t>;

// With seconds f, 2 f for each layer.
std::vector<LayerCost> layers_of(const std::vector<double>& forward_s) {
  std::vector<LayerCost> layers;
  for (const double f : forward_s)
    layers.push_back({.name = "l" + std::to_string(layers.size()),
                      .forward_s = f,
                      .backward_input_s = f,
                      .backward_weight_s = f,
                      .parameter_bytes = 100,
                      .output_bytes = 8,
                      .saved_bytes = 10});
  return layers;
}

class RandomModels {
 public:
  explicit RandomModels(unsigned seed) : engine_(seed) {}

  int integer(int low, int high) {  // in [low, high]
    return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1));
  }
  std::vector<LayerCost> layers(int count) {
    std::vector<LayerCost> layers;
    for (int i = 0; i < count; ++i)
      layers.push_back({.name = std::to_string(i),
                        .forward_s = static_cast<double>(integer(0, 3)),
                        .backward_input_s = static_cast<double>(integer(0, 3)),
                        .backward_weight_s = static_cast<double>(integer(0, 3)),
                        .parameter_bytes = integer(0, 5),
                        .output_bytes = integer(0, 5),
                        .saved_bytes = integer(0, 5),
                        .joined = integer(0, 4) == 0});
    return layers;
  }
  PartitionOptions options(int num_stages, int num_devices) {
    PartitionOptions options{.num_devices = num_devices, .state_per_parameter = 1};
    options.link = {.alpha_s = static_cast<double>(integer(0, 1)),
                    .beta_s_per_byte = static_cast<double>(integer(0, 1))};
    options.kept.clear();
    for (int stage = 0; stage < num_stages; ++stage) options.kept.push_back(integer(1, 3));
    return options;
  }

 private:
  std::mt19937 engine_;
};

// The criteria of a cut, written down a second time.
struct Cost {
  double slowest_s = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t largest_stage = 0;
  std::vector<std::int64_t> devices;
};

Cost cost_of(const std::vector<LayerCost>& layers, const Starts& starts,
             const PartitionOptions& options) {
  Cost cost;
  cost.devices.resize(static_cast<std::size_t>(options.num_devices), 0);
  for (std::size_t s = 0; s < starts.size(); ++s) {
    const std::size_t begin = starts[s];
    const std::size_t end = s + 1 < starts.size() ? starts[s + 1] : layers.size();
    double seconds = 0;
    std::int64_t parameters = 0, saved = 0;
    for (std::size_t i = begin; i < end; ++i) {
      seconds += layers[i].seconds();
      parameters += layers[i].parameter_bytes;
      saved += layers[i].saved_bytes;
    }
    const auto send = [&](std::int64_t bytes) {
      if (options.num_devices == 1) return;
      seconds += options.link.alpha_s + options.link.beta_s_per_byte * static_cast<double>(bytes);
      cost.sent_bytes += bytes;
    };
    if (begin > 0) send(layers[begin - 1].output_bytes);
    if (end < layers.size()) send(layers[end - 1].output_bytes);
    const std::int64_t input = begin > 0 ? layers[begin - 1].output_bytes : 0;
    const std::int64_t memory = 3 * parameters + options.kept[s] * (saved + input);
    cost.slowest_s = std::max(cost.slowest_s, seconds);
    cost.largest_stage = std::max(cost.largest_stage, memory);
    cost.devices[s % cost.devices.size()] += memory;
  }
  return cost;
}

// Calls visit(starts) for all cuts into stages that separate no joined layers.
template <class Visit>
void for_every_cut(const std::vector<LayerCost>& layers, std::size_t num_stages, Starts starts,
                   const Visit& visit) {
  if (starts.size() == num_stages) return visit(starts);
  for (std::size_t i = starts.back() + 1; i < layers.size(); ++i) {
    if (layers[i].joined) continue;
    Starts longer = starts;
    longer.push_back(i);
    for_every_cut(layers, num_stages, longer, visit);
  }
}

// The best of all cuts; largest_stage < 0 if none fits. `smallest` is the least memory that the
// largest stage can need.
struct Best {
  double slowest_s = std::numeric_limits<double>::infinity();
  std::int64_t sent_bytes = 0;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::max();
  bool found = false, enough_layers = false;
};

Best best_of_all(const std::vector<LayerCost>& layers, int num_stages,
                 const PartitionOptions& options) {
  Best best;
  const std::int64_t v = num_stages / options.num_devices;
  for_every_cut(layers, static_cast<std::size_t>(num_stages), {0}, [&](const Starts& starts) {
    const Cost cost = cost_of(layers, starts, options);
    best.enough_layers = true;
    best.smallest = std::min(best.smallest, cost.largest_stage);
    const std::int64_t limit = options.memory_limit_bytes;
    if (limit > 0 && cost.largest_stage * v > limit) return;
    if (std::pair(cost.slowest_s, cost.sent_bytes) >= std::pair(best.slowest_s, best.sent_bytes))
      return;
    best.found = true;
    best.slowest_s = cost.slowest_s;
    best.sent_bytes = cost.sent_bytes;
  });
  return best;
}

void expect_best(const std::vector<LayerCost>& layers, int num_stages,
                 const PartitionOptions& options) {
  const Best best = best_of_all(layers, num_stages, options);
  const auto cut = [&] { return optimal_partition(layers, num_stages, options); };
  if (!best.enough_layers) return expect_refused(cut, "a layer for each stage");
  if (!best.found) {
    const std::int64_t least = best.smallest * (num_stages / options.num_devices);
    return expect_refused(cut, "the least limit is " + std::to_string(least));
  }
  const Partition partition = cut();
  const Cost cost = cost_of(layers, partition.starts, options);
  EXPECT_EQ(cost.slowest_s, best.slowest_s) << partition;
  EXPECT_EQ(cost.sent_bytes, best.sent_bytes) << partition;
  EXPECT_EQ(partition.stages[partition.bottleneck()].seconds(), best.slowest_s);
  EXPECT_EQ(partition.step.memory_bytes,
            *std::max_element(cost.devices.begin(), cost.devices.end()));
  const bool fits =
      options.memory_limit_bytes == 0 || partition.step.memory_bytes <= options.memory_limit_bytes;
  EXPECT_TRUE(fits) << partition;
}

// --- The best of all cuts ----------------------------------------------------------------------

TEST(OptimalPartitionTest, IsTheBestOfAllCuts) {
  RandomModels random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    const int num_stages = random.integer(1, 5);
    const auto layers = random.layers(random.integer(1, 10));
    expect_best(layers, num_stages, random.options(num_stages, num_stages));
  }
}

TEST(OptimalPartitionTest, IsTheBestOfThoseThatFit) {
  RandomModels random(2);
  for (int trial = 0; trial < 2000; ++trial) {
    SCOPED_TRACE(trial);
    const int num_stages = random.integer(1, 5);
    const auto layers = random.layers(random.integer(1, 10));
    PartitionOptions options = random.options(num_stages, num_stages);
    options.memory_limit_bytes = random.integer(1, 120);
    expect_best(layers, num_stages, options);
  }
}

TEST(OptimalPartitionTest, GivesStagesOfOneDeviceEqualShares) {
  RandomModels random(3);
  for (int trial = 0; trial < 1000; ++trial) {
    SCOPED_TRACE(trial);
    const int num_devices = random.integer(1, 2), num_stages = 2 * num_devices;
    const auto layers = random.layers(random.integer(4, 10));
    PartitionOptions options = random.options(num_stages, num_devices);
    options.memory_limit_bytes = random.integer(20, 250);
    expect_best(layers, num_stages, options);
  }
}

TEST(OptimalPartitionTest, CutsAThousandLayers) {
  RandomModels random(4);
  const auto layers = random.layers(1000);
  for (const int num_stages : {2, 16, 128}) {
    const Partition partition = optimal_partition(layers, num_stages);
    EXPECT_LE(partition.step.seconds, partition.uniform_step.seconds);
    EXPECT_EQ(partition.stages.back().end, layers.size());
  }
}

TEST(OptimalPartitionTest, SendsAsLittleAsPossibleWhereTimesAreEqual) {
  auto layers = layers_of({1, 1, 0, 0, 1, 1});
  layers[2].output_bytes = 3;
  EXPECT_EQ(optimal_partition(layers, 2).starts, (Starts{0, 3}));
}

TEST(OptimalPartitionTest, KeepsJoinedLayersTogether) {
  auto layers = layers_of({1, 1, 1, 1});
  EXPECT_EQ(optimal_partition(layers, 2).starts, (Starts{0, 2}));
  layers[2].joined = true;
  EXPECT_NE(optimal_partition(layers, 2).starts, (Starts{0, 2}));
  EXPECT_EQ(uniform_partition(layers, 3).starts, (Starts{0, 1, 3}));
  expect_refused([&] { partition_at(layers, {0, 2}); }, "layer \"l2\" runs in one pass");
}

TEST(OptimalPartitionTest, PaysForMessages) {
  auto layers = layers_of({2, 2, 2, 2});
  layers[1].output_bytes = 1000;
  PartitionOptions options;
  EXPECT_EQ(optimal_partition(layers, 2, options).starts, (Starts{0, 2}));
  options.link.beta_s_per_byte = 1;
  EXPECT_NE(optimal_partition(layers, 2, options).starts, (Starts{0, 2}));
  options.num_devices = 1;  // no messages
  EXPECT_EQ(optimal_partition(layers, 2, options).starts, (Starts{0, 2}));
}

// --- What is predicted -------------------------------------------------------------------------

TEST(PartitionTest, AddsUpItsLayers) {
  const auto layers = layers_of({1, 2, 3, 4});
  PartitionOptions options{.kept = {3, 2}, .state_per_parameter = 2};
  options.link = {.alpha_s = 1, .beta_s_per_byte = 0.5};
  const Partition partition = partition_at(layers, {0, 3}, options);
  ASSERT_EQ(partition.stages.size(), 2U);
  const StageCost& first = partition.stages[0];
  EXPECT_EQ(first.forward_s, 6);
  EXPECT_EQ(first.backward_s, 12);
  EXPECT_EQ(first.message_s, 5);
  EXPECT_EQ(first.memory_bytes, 4 * 300 + 3 * 30);
  EXPECT_EQ(partition.stages[1].memory_bytes, 4 * 100 + 2 * (10 + 8));
  EXPECT_EQ(partition.bottleneck(), 0U);
}

// Equal stages, and for gpipe also unequal ones: the formula agrees with a simulation of the
// schedule.
TEST(PartitionTest, PredictsWhatSchedulesTake) {
  const auto expect_predicted = [](const PipelinePlan& plan, const std::vector<double>& forward_s) {
    const auto layers = layers_of(forward_s);
    const Partition partition = uniform_partition(layers, plan.num_stages, partition_options(plan));
    PipelineCosts costs{
        .forward_s = forward_s, .backward_input_s = forward_s, .backward_weight_s = forward_s};
    const PipelineTimes times = pipeline_times(with_messages(plan), costs);
    EXPECT_NEAR(partition.step.seconds, times.total_s, 1e-9) << plan;
    EXPECT_NEAR(partition.step.bubble, times.bubble, 1e-9) << plan;
  };
  for (const int p : {1, 2, 4}) {
    const auto stages = static_cast<std::size_t>(p);
    for (const char* schedule : {"gpipe", "1f1b"})
      expect_predicted(make_pipeline_plan(schedule, p, 1, 8), std::vector<double>(stages, 2));
    expect_predicted(interleaved(p, 2, 8), std::vector<double>(2 * stages, 2));
  }
  expect_predicted(gpipe(4, 6), {1, 3, 2, 5});
}

TEST(PartitionTest, KeepsWhatTheScheduleKeeps) {
  for (const char* schedule : {"gpipe", "1f1b", "zero_bubble"}) {
    const PipelinePlan plan = make_pipeline_plan(schedule, 4, 1, 8);
    EXPECT_EQ(partition_options(plan).kept, peak_kept(plan)) << schedule;
  }
  const PipelinePlan plan = interleaved(2, 2, 4);
  const PartitionOptions options = partition_options(plan);
  EXPECT_EQ(options.num_devices, 2);
  EXPECT_EQ(options.num_micro_batches, 4);
  for (std::size_t device = 0; device < 2; ++device)
    EXPECT_GE(options.kept[device] + options.kept[device + 2], peak_kept(plan)[device]);
}

TEST(PartitionTest, UniformHasAsManyLayersInEachStageOrOneMore) {
  for (std::size_t count = 1; count <= 12; ++count)
    for (std::size_t stages = 1; stages <= count; ++stages) {
      const Partition partition =
          uniform_partition(layers_of(std::vector<double>(count, 1)), static_cast<int>(stages));
      for (const StageCost& stage : partition.stages) {
        EXPECT_GE(stage.end - stage.begin, count / stages);
        EXPECT_LE(stage.end - stage.begin, (count + stages - 1) / stages);
      }
    }
}

TEST(PartitionTest, PrintsATable) {
  const auto layers = layers_of({1, 2, 3, 4});
  std::ostringstream text;
  text << optimal_partition(layers, 2, {.num_micro_batches = 1, .memory_limit_bytes = 2000});
  EXPECT_EQ(
      text.str(),
      "stage  device  layers     forward ms  backward ms  messages ms  of slowest      memory\n"
      "    0       0  l0 ... l2    6000.000    12000.000        0.000       100 %       630 B"
      "  bottleneck\n"
      "    1       1  l3           4000.000     8000.000        0.000        67 %       218 B\n"
      "memory: 630 B of 2.0 KiB on the fullest device\n"
      "predicted for 1 micro-batches: 30000.000 ms, bubble 50 %; cut uniformly 30000.000 ms, "
      "bubble 50 %\n");
}

// --- Refused -----------------------------------------------------------------------------------

TEST(PartitionTest, SaysWhatDoesNotFit) {
  const auto layers = layers_of({1, 1, 1, 1});
  const PartitionOptions options{.memory_limit_bytes = 300};
  expect_refused([&] { optimal_partition(layers, 2, options); }, "the least limit is 428");
  expect_refused([&] { uniform_partition(layers, 2, options); },
                 "layers \"l2\" to \"l3\", which need 428 bytes");
  EXPECT_EQ(optimal_partition(layers, 2, {.memory_limit_bytes = 428}).starts, (Starts{0, 2}));
}

TEST(PartitionTest, RefusesWhatMakesNoSense) {
  const auto layers = layers_of({1, 1, 1});
  const auto with = [&](const PartitionOptions& options) {
    return [&layers, options] { optimal_partition(layers, 2, options); };
  };
  expect_refused([] { optimal_partition({}, 1); }, "there must be layers");
  expect_refused([&] { optimal_partition(layers, 4); }, "got 3 layers for 4 stages");
  expect_refused([&] { uniform_partition(layers, 4); }, "got 3 layers for 4 stages");
  expect_refused([&] { optimal_partition(layers, 0); }, "there must be stages; got 0");
  expect_refused([&] { optimal_partition(layers, -1); }, "there must be stages; got -1");
  expect_refused([&] { partition_at(layers, {}); }, "there must be stages; got 0");
  expect_refused([&] { partition_at(layers, {1, 2}); }, "must start at layer 0; got 1");
  expect_refused([&] { partition_at(layers, {0, 2, 2}); }, "starts must grow");
  expect_refused([&] { partition_at(layers, {0, 3}); }, "less than 3");
  expect_refused(with({.num_devices = 3}), "got 2 stages on 3 devices");
  expect_refused(with({.num_devices = -1}), "must not be negative; got -1");
  expect_refused(with({.num_micro_batches = 0}), "must be positive; got 0");
  expect_refused(with({.kept = {}}), "must say something");
  expect_refused(with({.kept = {1, 0}}), "got kept = 0");
  expect_refused(with({.memory_limit_bytes = -5}), "must not be negative; got -5");
  expect_refused(with({.state_per_parameter = -1}), "must not be negative; got -1");
  expect_refused(with({.link = {.alpha_s = -1}}), "got -1 and 0");
}

TEST(PartitionTest, NamesTheLayerWhoseCostMakesNoSense) {
  auto layers = layers_of({1, 1});
  layers[1].forward_s = std::numeric_limits<double>::quiet_NaN();
  expect_refused([&] { optimal_partition(layers, 1); }, "got nan of layer \"l1\"");
  layers = layers_of({1, 1});
  layers[0].saved_bytes = -3;
  expect_refused([&] { optimal_partition(layers, 1); }, "got -3 of layer \"l0\"");
  layers[0].saved_bytes = std::numeric_limits<std::int64_t>::max();
  expect_refused([&] { optimal_partition(layers, 1); }, "less than 2^53");
}

}  // namespace
}  // namespace ringrad
