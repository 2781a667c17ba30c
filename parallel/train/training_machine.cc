#include "parallel/train/training_machine.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>

#include "autograd/cross_entropy.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "nn/sgd.h"
#include "parallel/comm/ranks.h"
#include "parallel/train/assumed_layers.h"
#include "parallel/train/layer_profile.h"

namespace ringrad {
namespace {

constexpr int kRepeats = 9, kWarmUp = 3, kMostThreads = 32;

// Sums are in canonical order unless a group is asked for another one (comm/group_options.h).
const std::vector<std::string> kCanonical = {"one_shot", "two_shot"};

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median_seconds(const std::function<void()>& call) {
  for (int i = 0; i < kWarmUp; ++i) call();
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) seconds.push_back(seconds_of(call));
  std::nth_element(seconds.begin(), seconds.begin() + kRepeats / 2, seconds.end());
  return seconds[kRepeats / 2];
}

Tensor images_of(const TrainingTask& task, std::int64_t samples) {
  return randn({samples, task.images.channels, task.images.height, task.images.width});
}

int processors() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

// The threads of one rank's share, until the end of the scope.
class Team {
 public:
  explicit Team(int ranks) { omp_set_num_threads(std::max(before_ / ranks, 1)); }
  ~Team() { omp_set_num_threads(before_); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

// Links, and the time of forward and backward passes that all ranks begin together, until the last one is done.
struct Together {
  CostModel links;
  double passes_s = 0;
};

Together measure_together(const TrainingTask& task, int devices, std::int64_t samples) {
  Together together;
  run_ranks(devices, [&](Communicator& comm) {
    nn::Sequential net = nn::make_model(task.model, task.images);
    const Tensor images = images_of(task, samples);
    const auto links = comm.links(Device());
    const double passes_s = median_seconds([&] {
      comm.barrier();
      sum(net(images)).backward();
      comm.barrier();
    });
    if (comm.rank() == 0) together = {links.value_or(CostModel()), passes_s};
  });
  return together;
}

}  // namespace

TrainingMachine this_machine(const TrainingTask& task, int devices, std::int64_t batch) {
  RINGRAD_CHECK(devices >= 1 && devices <= kMostThreads, ValueError, Where::current(),
                "this_machine: devices are threads, of which there must be 1 to ", kMostThreads,
                "; got ", devices);
  TrainingMachine machine;
  SplitQuestion& question = machine.question;
  TrainingSetup& common = question.common;
  const std::int64_t samples = std::max<std::int64_t>(batch / devices, 1);
  const auto net = std::make_shared<nn::Sequential>(nn::make_model(task.model, task.images));

  common.all_reduces = kCanonical;
  common.overlap = processors() >= 2 * devices;  // as DistributedDataParallel decides
  common.state_bytes_per_byte = task.state_per_parameter;
  std::vector<LayerCost>
      share;  // the layers of a replica's share, which contention is measured against
  {
    const Team team(devices);
    share = profile_layers(*net, images_of(task, samples));
    nn::SGD optimizer(net->parameters(), {.learning_rate = 0, .momentum = 0.9});
    const double bytes = 4.0 * static_cast<double>(net->num_parameters());
    common.optimizer_s_per_byte = median_seconds([&] { optimizer.step(); }) / bytes;
    const Tensor logits = randn({samples, task.images.classes}).set_requires_grad(),
                 labels = randint(0, task.images.classes, {samples});
    common.other_s = median_seconds([&] { cross_entropy(logits, labels).backward(); });
  }
  const Together together = measure_together(task, devices, samples);
  common.links = together.links;
  const double alone_s = std::accumulate(
      share.begin(), share.end(), 0.0,
      [](double seconds, const LayerCost& layer) { return seconds + layer.seconds(); });
  common.contention = std::max(together.passes_s / alone_s, 1.0);
  question.layers = [net, task, devices, samples, share](std::int64_t of_micro_batch) {
    if (of_micro_batch == samples) return share;
    const Team team(devices);
    return profile_layers(*net, images_of(task, of_micro_batch));
  };
  machine.measured = {
      "layers, the optimizer and the loss on one rank, with its share of the processors",
      "alpha, beta and gamma between " + std::to_string(devices) + " threads",
      "contention, how much longer passes take while all ranks compute than layers alone at their "
      "best: " +
          std::to_string(common.contention)};
  machine.assumed = {common.overlap ? "reductions beside backward cost it nothing"
                                    : "no overlap: there are fewer than two processors per rank",
                     "stages of a pipeline slow each other as much as replicas do"};
  return machine;
}

TrainingMachine assumed_machine(const TrainingTask& task, const std::string& topology, int devices,
                                double efficiency) {
  TrainingMachine machine;
  SplitQuestion& question = machine.question;
  const Topology named = named_topology(topology, devices);
  named.kernel_seconds(0, 0, efficiency);  // checks it
  nn::Sequential net = nn::make_model(task.model, task.images);
  const std::vector<LayerWork> work =
      count_work(net, {task.images.channels, task.images.height, task.images.width});
  question.layers = [=](std::int64_t samples) {
    return assumed_layers(work, samples, named, efficiency);
  };
  TrainingSetup& common = question.common;
  common.links = named.links;
  common.state_bytes_per_byte = task.state_per_parameter;
  // Reads parameters, gradients and state; writes parameters and state.
  common.optimizer_s_per_byte =
      (3 + 2 * task.state_per_parameter) / (efficiency * named.device.memory_bytes_per_s);
  question.memory_limit_bytes = named.device.memory_bytes;
  machine.assumed = {
      "devices and links of " + topology + " by their data sheets (parallel/plan/topology.cc)",
      "layers reach " + std::to_string(static_cast<int>(efficiency * 100)) +
          " % of float32 peak or of memory bandwidth; flops and bytes are counted",
      "reductions beside backward cost it nothing, and no two messages share a port"};
  return machine;
}

}  // namespace ringrad
