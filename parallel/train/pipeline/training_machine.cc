#include "ringrad/parallel/train/pipeline/training_machine.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/host/tensor_message.h"
#include "ringrad/parallel/train/pipeline/assumed_layers.h"
#include "ringrad/parallel/train/pipeline/layer_profile.h"

namespace ringrad {
namespace {

constexpr int kRepeats = 9, kWarmUp = 3, kMostThreads = 32;

// Sums are in canonical order unless a group's options choose another one (comm/group_options.h).
const std::vector<std::string> kCanonical = {"one_shot", "two_shot"};

// Calls `before` before each call, untimed.
double median_seconds(
    const std::function<void()>& call, const std::function<void()>& before = [] {}) {
  std::vector<double> seconds;
  for (int i = -kWarmUp; i < kRepeats; ++i) {
    before();
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i >= 0) seconds.push_back(took.count());
  }
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

double total_seconds(const std::vector<LayerCost>& layers) {
  return std::accumulate(
      layers.begin(), layers.end(), 0.0,
      [](double seconds, const LayerCost& layer) { return seconds + layer.seconds(); });
}

// Scales the layers' times, each measured at its best, so that they add up to the time of a whole
// pass.
void scale_to(std::vector<LayerCost>& layers, double pass_s) {
  const double sum_s = total_seconds(layers);
  if (sum_s <= 0) return;
  for (LayerCost& layer : layers)
    for (double* part : {&layer.forward_s, &layer.backward_input_s, &layer.backward_weight_s})
      *part *= pass_s / sum_s;
}

// Measures the layers for so many samples, on one rank with its share of the processors while no
// other rank runs.
std::vector<LayerCost> measure_layers(nn::Sequential& net, const TrainingTask& task, int devices,
                                      std::int64_t samples) {
  std::vector<LayerCost> layers;
  run_ranks(1, [&](Communicator&) {
    const Team team(devices);
    const Tensor images = images_of(task, samples);
    layers = profile_layers(net, images);
    scale_to(layers, median_seconds([&] { sum(net(images)).backward(); }));
  });
  return layers;
}

// On rank 1, half of the time until a tensor of rank 0 has arrived: the cost at either end. As in a
// pipeline, each message uses different memory on both sides.
double half_message_seconds(Communicator& comm, std::int64_t elements) {
  constexpr std::size_t kTensors = 8;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) tensors.push_back(zeros({elements}));
  std::size_t turn = 0;
  const auto message = [&] {
    Tensor& tensor = tensors[turn++ % kTensors];
    if (comm.rank() == 0) send_tensor(comm, tensor, 1);
    if (comm.rank() == 1) tensor = recv_tensor(comm, 0, Device());
  };
  return median_seconds(message, [&] { comm.barrier(); }) / 2;
}

LinkCost measure_copies(Communicator& comm) {
  constexpr std::int64_t kFew = 1, kMany = 1 << 20;
  const double few_s = half_message_seconds(comm, kFew), many_s = half_message_seconds(comm, kMany);
  return {.alpha_s = few_s,
          .beta_s_per_byte = std::max(many_s - few_s, 0.0) / (sizeof(float) * (kMany - kFew))};
}

// The time of forward and backward passes that `active` ranks begin together, until the last one is
// done. The ranks take turns, because a processor that several ranks share has lost a rank's data
// from its cache in the meantime.
double passes_seconds(Communicator& comm, nn::Sequential& net, const Tensor& images, int active) {
  int turn = 0;
  const auto passes = [&] {
    const int first = turn++ * active % comm.world_size();
    if ((comm.rank() - first + comm.world_size()) % comm.world_size() < active)
      sum(net(images)).backward();
    comm.barrier();
  };
  return median_seconds(passes, [&] { comm.barrier(); });
}

struct Together {
  CostModel links;
  std::optional<LinkCost> copies;  // from two ranks on
  std::vector<double> passes_s;    // of 1, 2, ... ranks
};

Together measure_together(const TrainingTask& task, int devices, std::int64_t samples) {
  Together together;
  run_ranks(devices, [&](Communicator& comm) {
    nn::Sequential net = nn::make_model(task.model, task.images);
    const Tensor images = images_of(task, samples);
    Together measured = {comm.links(Device()).value_or(CostModel()), {}, {}};
    if (devices > 1) measured.copies = measure_copies(comm);
    sum(net(images)).backward();  // warm-up: the first pass of each rank is not timed
    std::vector<double>& passes_s = measured.passes_s;
    for (int active = 1; std::ssize(passes_s) < devices; active = std::min(2 * active, devices)) {
      const double seconds = passes_seconds(comm, net, images, active);
      // Straight lines between the measured values.
      const auto known = static_cast<int>(passes_s.size());
      const double last_s = known > 0 ? passes_s.back() : 0;
      for (int k = known + 1; k <= active; ++k)
        passes_s.push_back(last_s + (seconds - last_s) * (k - known) / (active - known));
    }
    if (comm.rank() == std::min(1, devices - 1))
      together = std::move(measured);  // the rank that receives
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
  common.overlap = processors() >= 2 * devices;  // the rule of DistributedDataParallel
  common.state_bytes_per_byte = task.state_per_parameter;
  const std::vector<LayerCost> share = measure_layers(*net, task, devices, samples);
  question.layers = [net, task, devices, samples, share](std::int64_t of_micro_batch) {
    return of_micro_batch == samples ? share : measure_layers(*net, task, devices, of_micro_batch);
  };
  {
    const Team team(devices);
    nn::SGD optimizer(net->parameters(), {.learning_rate = 0, .momentum = 0.9});
    const double bytes = 4.0 * static_cast<double>(net->num_parameters());
    common.optimizer_s_per_byte = median_seconds([&] { optimizer.step(); }) / bytes;
    const Tensor logits = randn({samples, task.images.classes}).set_requires_grad(),
                 labels = randint(0, task.images.classes, {samples});
    common.other_s = median_seconds([&] { cross_entropy(logits, labels).backward(); });
  }
  const Together together = measure_together(task, devices, samples);
  common.links = together.links;
  common.copies = together.copies;
  common.contention.clear();
  for (const double passes_s : together.passes_s)
    common.contention.push_back(std::max(passes_s / total_seconds(share), 1.0));
  machine.measured = {
      "passes on one rank with its share of the processors, layers as parts of them, the optimizer "
      "and the loss",
      "alpha, beta and gamma between " + std::to_string(devices) +
          " threads, and what a message takes of each of two",
      "contention, how much longer passes take while 1, 2, 4, ... ranks compute, on straight lines "
      "between them; all: " +
          std::to_string(common.contention.back())};
  machine.assumed = {common.overlap
                         ? "reductions do not slow down the backward pass that they overlap"
                         : "no overlap: there are fewer than two processors per rank",
                     "stages of a pipeline slow each other as much as replicas do"};
  return machine;
}

TrainingMachine assumed_machine(const TrainingTask& task, const std::string& topology, int devices,
                                double efficiency) {
  TrainingMachine machine;
  SplitQuestion& question = machine.question;
  const Topology named = named_topology(topology, devices);
  named.kernel_seconds(0, 0, efficiency);  // throws if efficiency is out of range
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
  machine.assumed = {"devices and links of " + topology +
                         " by their data sheets (parallel/plan/predict/topology.cc)",
                     "layers reach " + std::to_string(static_cast<int>(efficiency * 100)) +
                         " % of float32 peak or of memory bandwidth; flops and bytes are counted",
                     "reductions do not slow down the backward pass that they overlap, and no two "
                     "messages share a port"};
  return machine;
}

}  // namespace ringrad
