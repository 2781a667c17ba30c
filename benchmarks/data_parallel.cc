// Steps of data parallel training: their time, and how much of the communication is hidden.
//
//     data_parallel --network convnet --batch 128 --world-size 1   without DistributedDataParallel
//     ringrun -n 2 data_parallel --network mlp [--backend gloo]    one thread per rank
//     data_parallel --network resnet20 --link 1                    all_reduce at 1 GB/s, as over a
//                                                                  network
//
//     network   layers                        batch of each rank
//     mlp       784 -> 1024 -> 1024 -> 10     64 vectors, 1.9 M parameters, 7.5 MB of gradients
//     convnet   nn::convnet                   128 grey 28 x 28
//     resnet20  nn::resnet20                  64 coloured 32 x 32
//
// A run uses eight rotating batches of random data and SGD with momentum, and reads the loss in
// every step. Rank 0 prints one line of JSON: the median step, the figures of summary() per step,
// and the memory of its process. peers/torch_data_parallel.py prints the same for PyTorch;
// compare_data_parallel runs both.

#include <omp.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/benchmarks/slow_link.h"
#include "ringrad/benchmarks/timing.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/random/random.h"
#include "ringrad/examples/job.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"

namespace ringrad::bench {
namespace {

struct Network {
  const char* name;
  nn::Sequential (*make)();
  Shape input;  // of one sample
  std::int64_t batch;
};

const std::vector<Network>& networks() {
  static const std::vector<Network> all{
      {"mlp",
       [] {
         return nn::Sequential(nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024),
                               nn::ReLU(), nn::Linear(1024, 10));
       },
       {784},
       64},
      {"convnet", [] { return nn::convnet(); }, {1, 28, 28}, 128},
      {"resnet20",
       [] { return nn::resnet20({.channels = 3, .height = 32, .width = 32}); },
       {3, 32, 32},
       64},
  };
  return all;
}

struct Settings {
  std::string network = "convnet", overlap = "automatic";
  std::int64_t batch = 0;
  int steps = 60, warmup = 15;
  std::int64_t bucket_bytes = 0;
  double link_gb_per_s = 0, latency_us = 0;

  const Network& chosen() const {
    return *std::find_if(networks().begin(), networks().end(),
                         [&](const Network& each) { return each.name == network; });
  }
  Overlap chosen_overlap() const {
    return overlap == "always"  ? Overlap::always
           : overlap == "never" ? Overlap::never
                                : Overlap::automatic;
  }
};

// Memory of this process; a page that n processes share counts for 1/n. Another rank's gradients,
// which this rank reads in place, do not count as its own.
double proportional_mb() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;)
    if (word == "Pss:") {
      double kb = 0;
      file >> kb;
      return kb / 1024;
    }
  return 0;
}

void measure(Communicator& comm, const Settings& settings, const std::string& backend) {
  omp_set_num_threads(1);
  const Network& network = settings.chosen();
  const std::int64_t batch = settings.batch > 0 ? settings.batch : network.batch;
  manual_seed(static_cast<std::uint64_t>(comm.rank()));
  nn::Sequential net = network.make();
  std::unique_ptr<Communicator> slow;
  if (settings.link_gb_per_s > 0)
    slow = over_slow_link(comm, settings.latency_us / 1e6, settings.link_gb_per_s * 1e9);
  std::optional<DistributedDataParallel> replica;
  if (comm.world_size() > 1)
    replica.emplace(net, slow ? *slow : comm,
                    DistributedDataParallelOptions{.bucket_bytes = settings.bucket_bytes,
                                                   .overlap = settings.chosen_overlap()});
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.005, .momentum = 0.9});
  Shape shape = network.input;
  shape.insert(0, batch);
  constexpr std::size_t kBatches = 8;
  std::vector<std::pair<Tensor, Tensor>> batches;
  for (std::size_t i = 0; i < kBatches; ++i)
    batches.emplace_back(randn(shape), randint(0, 10, {batch}));

  std::vector<double> seconds;
  CommunicationSummary before;
  for (int step = 0; step < settings.warmup + settings.steps; ++step) {
    if (step == settings.warmup && replica) before = replica->summary();
    const double begin = now_seconds();
    const auto& [x, y] = batches[static_cast<std::size_t>(step) % kBatches];
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(replica ? replica->forward(x) : net(x), y);
    loss.backward();
    optimizer.step();
    loss.item();
    if (step >= settings.warmup) seconds.push_back(now_seconds() - begin);
  }
  if (comm.rank() != 0) return;
  const double step_s = median(seconds);
  nlohmann::ordered_json line{
      {"network", network.name},
      {"batch", batch},
      {"ranks", comm.world_size()},
      {"backend", comm.world_size() > 1 ? backend : "none"},
      {"step_ms", step_s * 1e3},
      {"images_per_second", static_cast<double>(comm.world_size() * batch) / step_s},
      {"memory_mb", proportional_mb()}};
  if (replica) {
    const CommunicationSummary summary = replica->summary();
    const double steps = settings.steps;
    const double work_s = summary.communication_s - before.communication_s,
                 exposed_s = summary.exposed_s - before.exposed_s;
    line["overlaps"] = summary.overlaps;
    line["buckets"] = summary.bucket_bytes;
    line["communication_ms"] = work_s / steps * 1e3;
    line["exposed_ms"] = exposed_s / steps * 1e3;
    line["hidden"] = 1 - exposed_s / work_s;
  }
  if (settings.link_gb_per_s > 0) line["link_gb_per_s"] = settings.link_gb_per_s;
  std::cout << line.dump() << std::endl;
}

}  // namespace
}  // namespace ringrad::bench

int main(int argc, char** argv) {
  using namespace ringrad;
  bench::Settings settings;
  Job job("Measures steps of data parallel training, with one thread per rank.");
  CLI::App& options = job.options();
  std::vector<std::string> names;
  for (const bench::Network& network : bench::networks()) names.emplace_back(network.name);
  options.add_option("--network", settings.network)->check(CLI::IsMember(names));
  options.add_option("--batch", settings.batch, "samples of each rank and step; 0: the network's")
      ->check(option::whole(0, 1 << 20));
  options.add_option("--steps", settings.steps)->check(option::steps());
  options.add_option("--warmup", settings.warmup)->check(option::whole(0, 1000));
  options.add_option("--overlap", settings.overlap, "communication beside backward")
      ->check(CLI::IsMember({"automatic", "never", "always"}));
  options.add_option("--bucket-bytes", settings.bucket_bytes, "0: what fits the links")
      ->check(option::whole(0, std::int64_t{1} << 40));
  options.add_option("--link", settings.link_gb_per_s, "GB/s of an artificial link; 0: none")
      ->check(option::number(0, 1e6));
  options.add_option("--latency", settings.latency_us, "microseconds of the artificial link")
      ->check(option::number(0, 1e6));
  return job.run(argc, argv,
                 [&](Communicator& comm) { bench::measure(comm, settings, job.backend()); });
}
