// Local SGD: ranks train alone and average their parameters every few steps. The longer the period,
// the fewer bytes the ranks send, and the further the replicas drift apart.
//
//     local_sgd --world-size 4                         ranks are threads
//     local_sgd --world-size 4 --device cuda           a GPU each
//     ringrun -n 4 local_sgd [--backend gloo]          processes, over shared memory or TCP
//     mpirun -n 4 local_sgd --backend mpi

#include <iomanip>
#include <iostream>

#include "ringrad/examples/job.h"
#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

struct Result {
  float loss;
  std::int64_t bytes;  // averaged by this rank, of parameters
};

Result train(Communicator& comm, const TensorDataset& data, std::int64_t period, int epochs) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 3));
  LocalSGD average(net, comm, {.period = period});
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2, .momentum = 0.9});

  DistributedSampler sampler(data.size(), {.num_replicas = comm.world_size(), .rank = comm.rank()});
  DataLoader loader(data, sampler, {.batch_size = 128 / comm.world_size()});
  std::int64_t num_averages = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      const Tensor x = to(batch.input(), default_device()),
                   y = to(batch.target(), default_device());
      cross_entropy(net(x), y).backward();
      optimizer.step();
      num_averages += average.step();
    }
  }
  num_averages += average.num_steps() % period != 0;
  average.sync();  // the last steps

  const NoGradGuard guard;
  const Tensor x = to(data.tensors()[0], default_device()),
               y = to(data.tensors()[1], default_device());
  return {cross_entropy(net(x), y).item<float>(), num_averages * net.num_parameters() * 4};
}

int main(int argc, char** argv) {
  int epochs = 20;
  Job job("Trains on points of three spirals by local SGD, with several periods.");
  job.options().add_option("--epochs", epochs, "passes over the data")->check(option::epochs());
  return job.run(argc, argv, [&](Communicator& comm) {
    const TensorDataset data = spirals(1024, 3);
    for (const std::int64_t period : {1, 4, 16, 64}) {
      const Result result = train(comm, data, period, epochs);
      if (comm.rank() == 0)
        std::cout << "period " << std::setw(2) << period << ": loss " << std::fixed
                  << std::setprecision(4) << result.loss << ", " << std::setw(7) << result.bytes
                  << " bytes averaged\n";
    }
  });
}
