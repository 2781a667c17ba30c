// Tensor parallel training: groups of ranks share a network whose matrices are split between them,
// and each group is a replica that works on its part of each batch. For comparison the unsplit
// network is trained as well, and must learn the same.
//
//     tensor_parallel --world-size 4 --tensor 2                        2 replicas of 2 thread ranks
//     tensor_parallel --world-size 4 --tensor 4 --device cuda          1 replica on 4 GPUs
//     ringrun -n 4 tensor_parallel [--backend gloo]                    processes

#include <algorithm>
#include <cmath>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

nn::Sequential split_network(Communicator& ranks) {
  manual_seed(1);
  return nn::Sequential(ColumnParallelLinear(2, 64, ranks, {.gather_output = false}), nn::ReLU(),
                        RowParallelLinear(64, 64, ranks, {.input_is_parallel = true}), nn::ReLU(),
                        nn::Linear(64, 3));  // not split: every rank has all of it
}

nn::Sequential whole_network() {
  manual_seed(1);
  return nn::Sequential(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(),
                        nn::Linear(64, 3));
}

// Returns the loss of the last batch, over all replicas.
float train(nn::Sequential& net, Communicator& replicas, int epochs) {
  DistributedDataParallel model(net, replicas);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2, .momentum = 0.9});

  const TensorDataset data = spirals(1024, 3);
  DistributedSampler sampler(data.size(), {.num_replicas = replicas.world_size(),
                                           .rank = replicas.rank()});  // not of all ranks
  DataLoader loader(data, sampler, {.batch_size = std::max(1, 128 / replicas.world_size())});
  Tensor loss;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      loss = cross_entropy(model(x), y);
      loss.backward();
      optimizer.step();
    }
  const Tensor mean = loss.detach();
  replicas.all_reduce(mean, ReduceOp::mean);
  return mean.item<float>();
}

float largest_difference(const nn::StateDict& a, const nn::StateDict& b) {
  float largest = 0;
  for (const auto& [name, tensor] : a) {
    const auto ours = tensor.to_vector<float>(), theirs = b.at(name).to_vector<float>();
    for (std::size_t i = 0; i < ours.size(); ++i)
      largest = std::max(largest, std::abs(ours[i] - theirs[i]));
  }
  return largest;
}

void compare(Communicator& comm, int tensor, int epochs) {
  const Mesh mesh(comm, {{"data", comm.world_size() / tensor}, {"tensor", tensor}});
  nn::Sequential split = split_network(mesh.axis("tensor")), whole = whole_network();
  const float loss = train(split, mesh.axis("data"), epochs),
              loss_of_whole = train(whole, mesh.axis("data"), epochs);
  const nn::StateDict joined = whole_state_dict(split);  // all ranks join in
  if (comm.rank() > 0) return;
  std::cout << mesh << '\n'
            << split << '\n'
            << split.num_parameters() << " of " << whole.num_parameters()
            << " parameters on each rank\n"
            << "loss of the last batch: " << loss << ", unsplit " << loss_of_whole << '\n'
            << "weights differ by at most " << largest_difference(joined, whole.state_dict())
            << " from those of the unsplit network\n";
}

int main(int argc, char** argv) {
  int tensor = 2, epochs = 4;
  Job job("Trains a small network, tensor parallel and data parallel at once.", 4);
  job.options()
      .add_option("--tensor", tensor, "ranks that share a network")
      ->check(option::whole(1, kMaxRanks));
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) { compare(comm, tensor, epochs); });
}
