// A user's program: one epoch of data parallel training on two thread ranks.

#include <cstdio>

#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"

int main() {
  using namespace ringrad;
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net(nn::Linear(2, 8), nn::ReLU(), nn::Linear(8, 3));
    DistributedDataParallel model(net, comm);
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.2});
    const TensorDataset data = spirals(64, 3);
    DistributedSampler sampler(data.size(), {comm.world_size(), comm.rank()});
    DataLoader loader(data, sampler, {.batch_size = 32});
    for (const Batch& batch : loader) {
      optimizer.zero_grad();
      cross_entropy(model(batch.input()), batch.target()).backward();
      optimizer.step();
    }
    const bool identical = replicas_identical(net, comm);
    if (comm.rank() == 0) std::printf("Ringrad %s, identical: %d\n", version(), identical);
  });
}
