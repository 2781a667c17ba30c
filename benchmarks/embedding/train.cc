// The program of the size budget: convolution, batch norm, linear layer and SGD on two ranks that
// are threads.

#include <cstdio>

#include "ringrad/parallel.h"
#include "ringrad/ringrad.h"

int main() {
  using namespace ringrad;
  run_ranks(2, [](Communicator& comm) {
    nn::Sequential net(nn::Conv2d(1, 8), nn::BatchNorm2d(8), nn::ReLU(), nn::Flatten(),
                       nn::Linear(8 * 6 * 6, 10));
    DistributedDataParallel model(net, comm);
    nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1});
    cross_entropy(model(ones({4, 1, 8, 8})), tensor({1, 2, 3, 4})).backward();
    optimizer.step();
    const bool identical = replicas_identical(net, comm);
    if (comm.rank() == 0) std::printf("identical: %d\n", identical);
  });
}
