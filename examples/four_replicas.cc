#include <iostream>

#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"
using namespace ringrad;

int main() {
  const TensorDataset data = spirals(1024, 3);
  run_ranks(4, [&](Communicator& comm) {
    nn::Sequential net(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 3));
    DistributedDataParallel model(net, comm);
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2, .momentum = 0.9});
    DistributedSampler sampler(data.size(), {comm.world_size(), comm.rank()});
    DataLoader loader(data, sampler, {.batch_size = 32});
    for (int epoch = 0; epoch < 20; ++epoch)
      for (const Batch& batch : loader) {
        optimizer.zero_grad();
        cross_entropy(model(batch.input()), batch.target()).backward();
        optimizer.step();
      }
    const bool identical = replicas_identical(net, comm);
    if (comm.rank() == 0) std::cout << model.summary() << "\nidentical: " << identical << '\n';
  });
}
