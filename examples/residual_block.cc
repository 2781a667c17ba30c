// A residual block on many ranks: data parallel, with batch norms that see the whole batch. The
// ranks compute what one rank computes on the whole batch, up to rounding; every rank also does the
// latter, for comparison.
//
//     residual_block --world-size 4                     ranks are threads
//     residual_block --world-size 4 --device cuda       a GPU each
//     ringrun -n 4 residual_block                       processes

#include <algorithm>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

constexpr std::int64_t kBatch = 48;  // of all ranks

nn::Sequential make_net() {
  manual_seed(1);
  return nn::Sequential(nn::ResidualBlock(3, 8, /*stride=*/2), nn::AdaptiveAvgPool2d(1),
                        nn::Flatten(), nn::Linear(8, 3));
}

struct Images {
  Tensor x, y;
};

// Noise, with one of three channels a little brighter; that channel is the class.
Images make_images(std::uint64_t step) {
  Generator generator(step);
  const Tensor x = randn({kBatch, 3, 8, 8}, {}, generator);
  const Tensor y = randint(0, 3, {kBatch}, generator);
  return {x + reshape(index_select(eye(3), 0, y), {kBatch, 3, 1, 1}), y};
}

void train(Communicator& comm, int steps) {
  if (kBatch % comm.world_size() != 0)
    throw ValueError("the ranks must divide the batch of 48 evenly", Where::current());
  const std::int64_t part = kBatch / comm.world_size(), first = comm.rank() * part;
  nn::Sequential net = make_net(), alone = make_net();
  synchronize_batch_norm(net, comm);
  DistributedDataParallel model(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9}),
      optimizer_alone(alone.parameters(), {.learning_rate = 0.1, .momentum = 0.9});

  for (int step = 1; step <= steps; ++step) {
    const auto [x, y] = make_images(static_cast<std::uint64_t>(step));
    optimizer.zero_grad();
    const Tensor loss =
        cross_entropy(model(slice(x, 0, first, first + part)), slice(y, 0, first, first + part));
    loss.backward();
    optimizer.step();

    optimizer_alone.zero_grad();
    cross_entropy(alone(x), y).backward();
    optimizer_alone.step();

    const Tensor mean = loss.detach();
    comm.all_reduce(mean, ReduceOp::mean);
    if (comm.rank() == 0) std::cout << "step " << step << ": loss " << mean.item<float>() << '\n';
  }

  const bool identical = replicas_identical(net, comm);
  float difference = 0;
  const NoGradGuard guard;
  for (const auto& [name, tensor] : net.state_dict())
    difference = std::max(difference, max(abs(tensor - alone.state_dict().at(name))).item<float>());
  if (comm.rank() == 0)
    std::cout << comm.world_size() << " replicas " << (identical ? "are" : "are not")
              << " identical, bit by bit\n"
              << "largest difference from one rank on the whole batch: " << difference << '\n';
}

int main(int argc, char** argv) {
  int steps = 10;
  Job job("Trains a residual block, data parallel with synchronised batch norm.");
  job.options().add_option("--steps", steps, "how many batches")->check(option::steps());
  return job.run(argc, argv, [&](Communicator& comm) { train(comm, steps); });
}
