// Pipelines, replicas and both on threads of this machine: predicted and measured steps side by
// side, and the cost of running a plan.
//
//     pipeline_training --model convnet --batch 128 --ranks 1,2,4   one line of JSON per split
//     pipeline_training --overhead                                  microseconds per plan action
//
// Each of several rounds measures the machine, predicts its splits
// (parallel/train/pipeline/training_machine.h), and then runs each split; the output is the median
// of the rounds. Each rank has its share of the processors, and one thread with --overhead.

#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/benchmarks/timing.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/untrusted/options.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/mesh.h"
#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/parallel/train/pipeline/pipeline.h"
#include "ringrad/parallel/train/pipeline/training_machine.h"

namespace ringrad::bench {
namespace {

struct Settings {
  std::string model = "convnet";
  std::vector<int> ranks = {1, 2, 4};
  std::int64_t batch = 128;
  int micro_batches = 4;
  int rounds = 5;
  int steps = 5;
  bool overhead = false;
};

Tensor loss_of(const Tensor& output, const Tensor& target) { return cross_entropy(output, target); }

// The median time in seconds of a step of `split` on thread ranks.
double measure(const Settings& settings, const TrainingSplit& split) {
  double median_s = 0;
  run_ranks(split.data * split.pipeline, [&](Communicator& comm) {
    const Mesh mesh(comm, {{"pipeline", split.pipeline}, {"data", split.data}});
    auto stages = nn::Sequential::split(nn::make_model(settings.model), split.starts);
    Pipeline pipeline(stages, mesh.axis("pipeline"),
                      one_forward_one_backward(split.pipeline, split.micro_batches), loss_of,
                      {.replicas = &mesh.axis("data")});
    std::optional<nn::SGD> optimizer;  // a stage may have nothing to train
    if (const auto parameters = pipeline.parameters(); !parameters.empty())
      optimizer.emplace(parameters, nn::SGDOptions{.learning_rate = 0.01, .momentum = 0.9});
    const std::int64_t rows = split.samples * split.micro_batches;
    const Tensor x = randn({rows, 1, 28, 28}), y = randint(0, 10, {rows});
    std::vector<double> seconds;
    for (int step = 0; step < 2 + settings.steps; ++step) {
      comm.barrier();
      const double begin = now_seconds();
      if (optimizer) optimizer->zero_grad();
      pipeline.train_step(x, y);
      if (optimizer) optimizer->step();
      comm.barrier();
      if (step >= 2) seconds.push_back(now_seconds() - begin);
    }
    if (comm.rank() == 0) median_s = median(seconds);
  });
  return median_s;
}

void compare(const Settings& settings, int ranks) {
  struct Figures {
    std::vector<double> predicted_s, measured_s;
  };
  std::map<std::pair<int, int>, Figures> splits;  // by replicas and stages
  for (int round = 0; round < settings.rounds; ++round) {
    TrainingMachine machine =
        this_machine({.model = settings.model, .images = {}}, ranks, settings.batch);
    machine.question.devices = ranks;
    machine.question.batch = settings.batch;
    machine.question.micro_batches = settings.micro_batches;
    for (const TrainingSplit& split : predict_splits(machine.question)) {
      if (!split.refused.empty()) continue;
      Figures& figures = splits[{split.data, split.pipeline}];
      figures.predicted_s.push_back(split.prediction.step_s);
      figures.measured_s.push_back(measure(settings, split));
    }
  }
  for (const auto& [split, figures] : splits) {
    const double predicted_s = median(figures.predicted_s), measured_s = median(figures.measured_s);
    std::cout << nlohmann::ordered_json{{"model", settings.model},
                                        {"batch", settings.batch},
                                        {"data", split.first},
                                        {"pipeline", split.second},
                                        {"micro_batches",
                                         split.second > 1 ? settings.micro_batches : 1},
                                        {"predicted_ms", predicted_s * 1e3},
                                        {"measured_ms", measured_s * 1e3},
                                        {"error", predicted_s / measured_s - 1}}
                     .dump()
              << std::endl;
  }
}

// The cost of a plan's actions without the stages' passes: tiny stages, compared with the same
// passes without a pipeline.
void measure_overhead(const Settings& settings, int ranks) {
  constexpr int kMicroBatches = 64;
  constexpr std::int64_t kWidth = 8;
  std::vector<double> overheads_us;
  std::size_t num_actions = 0;
  for (int round = 0; round < settings.rounds; ++round)
    run_ranks(ranks, [&](Communicator& comm) {
      omp_set_num_threads(1);
      std::vector<nn::Linear> layers;
      std::vector<nn::Module*> stages;
      for (int s = 0; s < ranks; ++s) layers.emplace_back(kWidth, kWidth);
      for (nn::Linear& layer : layers) stages.push_back(&layer);
      const auto mean_loss = [](const Tensor& y, const Tensor&) { return mean(y); };
      Pipeline pipeline(stages, comm, one_forward_one_backward(ranks, kMicroBatches), mean_loss);
      const Tensor x = randn({kMicroBatches, kWidth}), row = slice(x, 0, 0, 1);
      const auto seconds_of = [&](const auto& body) {
        std::vector<double> seconds;
        for (int i = 0; i < 50; ++i) {
          comm.barrier();
          const double begin = now_seconds();
          body();
          seconds.push_back(now_seconds() - begin);
        }
        return median(seconds);
      };
      const double pipeline_s = seconds_of([&] { pipeline.train_step(x, x); });
      // The passes of a stage, and those of other stages that it waits for at the beginning and at
      // the end.
      const double passes_s = seconds_of([&] {
        for (int b = 0; b < kMicroBatches + ranks - 1; ++b) {
          const Tensor input = row.detach().set_requires_grad();
          mean(layers[0](input)).backward();
        }
      });
      if (comm.rank() != 0) return;
      num_actions = pipeline.plan().actions[0].size();
      overheads_us.push_back((pipeline_s - passes_s) / static_cast<double>(num_actions) * 1e6);
    });
  std::cout << nlohmann::ordered_json{{"ranks", ranks},
                                      {"actions_per_rank", num_actions},
                                      {"overhead_us_per_action", median(overheads_us)},
                                      {"least_us",
                                       *std::min_element(overheads_us.begin(), overheads_us.end())}}
                   .dump()
            << std::endl;
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad;
  bench::Settings settings;
  CLI::App app("Compares predicted steps with measured ones, on thread ranks.");
  app.add_option("--model", settings.model)->check(CLI::IsMember(nn::model_names()));
  app.add_option("--ranks", settings.ranks)->delimiter(',')->check(CLI::Range(1, 32));
  app.add_option("--batch", settings.batch, "of all replicas together")->check(option::batch());
  app.add_option("--micro-batches", settings.micro_batches)->check(option::micro_batches());
  app.add_option("--rounds", settings.rounds)->check(option::whole(1, 1000));
  app.add_option("--steps", settings.steps, "per round, after two")->check(option::steps());
  app.add_flag("--overhead", settings.overhead, "measure what actions cost by themselves instead");
  if (const auto exit_code = parse_options(app, argc, argv)) return *exit_code;
  for (const int ranks : settings.ranks)
    settings.overhead ? bench::measure_overhead(settings, ranks) : bench::compare(settings, ranks);
}
