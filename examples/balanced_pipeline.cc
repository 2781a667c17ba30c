// A badly cut pipeline, the profile that shows its bottleneck, and the cut that removes it.
//
//     balanced_pipeline --world-size 2                         ranks are threads
//     balanced_pipeline --world-size 2 --device cuda           by the GPUs' clock
//     ringrun -n 2 balanced_pipeline                           processes

#include <algorithm>
#include <iomanip>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr int kMicroBatches = 8;
constexpr std::int64_t kRows = 32;  // of a micro-batch

// Twelve layers, of which the second half does nearly all of the work.
nn::Sequential make_net() {
  manual_seed(1);
  return nn::Sequential(nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                        nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, 768), nn::Linear(768, 768),
                        nn::Linear(768, 768), nn::Linear(768, 768), nn::Linear(768, 768),
                        nn::Linear(768, 64));
}

Tensor loss_of(const Tensor& output, const Tensor& target) { return mean(square(output - target)); }

// The fraction of a step in which each rank computes, and the step's duration: the best of several.
PipelineTimes measure(Communicator& comm, const std::vector<std::size_t>& starts, int steps) {
  auto stages = nn::Sequential::split(make_net(), starts);
  Pipeline pipeline(stages, comm, one_forward_one_backward(comm.world_size(), kMicroBatches),
                    loss_of, {.measure = true});
  const Tensor x = randn({kMicroBatches * kRows, 64});
  PipelineTimes best;
  for (int step = 0; step < steps; ++step) {
    pipeline.train_step(x, x);
    PipelineTimes times = pipeline.times();
    if (step == 0 || times.total_s < best.total_s) best = std::move(times);
  }
  if (comm.rank() == 0)
    std::cout << std::fixed << std::setprecision(2) << "measured: " << 1e3 * best.total_s
              << " ms per step, ranks wait " << std::setprecision(0) << 100 * best.bubble
              << " % of the time\n\n";
  return best;
}

void compare(Communicator& comm, int steps) {
  nn::Sequential net = make_net();
  const auto layers = profile_layers(net, randn({kRows, 64}), comm);
  const PartitionOptions options =
      partition_options(one_forward_one_backward(comm.world_size(), kMicroBatches));
  const Partition uniform = uniform_partition(layers, comm.world_size(), options),
                  optimal = optimal_partition(layers, comm.world_size(), options);
  if (comm.rank() == 0) std::cout << "As many layers on each rank:\n" << uniform;
  measure(comm, uniform.starts, steps);
  if (comm.rank() == 0) std::cout << "Cut by what layers cost:\n" << optimal;
  measure(comm, optimal.starts, steps);
}

int main(int argc, char** argv) {
  int steps = 5;
  Job job("Cuts a net into a pipeline badly, shows what waits for what, and cuts it well.");
  job.options().add_option("--steps", steps, "of which the fastest counts")->check(option::steps());
  return job.run(argc, argv, [&](Communicator& comm) { compare(comm, steps); });
}
