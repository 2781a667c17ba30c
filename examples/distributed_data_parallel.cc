// Data parallel training: every rank holds the whole model and works on its part of each batch;
// gradients are averaged while backward continues.
//
//     distributed_data_parallel --world-size 4                   ranks are threads
//     distributed_data_parallel --world-size 4 --device cuda     a GPU each; --nccl: over NCCL
//     ringrun -n 4 distributed_data_parallel [--backend gloo]    processes: shared memory or TCP
//     mpirun -n 4 distributed_data_parallel --backend mpi

#include <algorithm>
#include <iomanip>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

void train(Communicator& comm, int epochs) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 3));
  DistributedDataParallel model(net, comm);
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2, .momentum = 0.9});

  const TensorDataset data = spirals(1024, 3);
  DistributedSampler sampler(data.size(), {.num_replicas = comm.world_size(), .rank = comm.rank()});
  DataLoader loader(data, sampler, {.batch_size = std::max(1, 128 / comm.world_size())});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    Tensor loss;
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      loss = cross_entropy(model(x), y);
      loss.backward();  // gradients are averaged over all ranks on the way
      optimizer.step();
    }
    const Tensor mean = loss.detach();
    comm.all_reduce(mean, ReduceOp::mean);
    if (comm.rank() == 0)  // nine digits tell float32 apart: numbers of ranks differ in the last
      std::cout << "epoch " << epoch << ": loss of the last batch " << std::setprecision(9)
                << mean.item<float>() << '\n';
  }
  const bool identical = replicas_identical(net, comm);
  if (comm.rank() == 0)
    std::cout << comm.world_size() << " replicas " << (identical ? "are" : "are not")
              << " identical, bit by bit\n";
}

int main(int argc, char** argv) {
  int epochs = 4;
  Job job("Trains a small network on points of three spirals, data parallel.");
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) { train(comm, epochs); });
}
