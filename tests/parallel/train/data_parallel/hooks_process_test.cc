// Compressed gradients, and ranks without data, on process ranks: the same bits as on threads.

#include <gtest/gtest.h>

#include <vector>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/communication_hooks.h"
#include "ringrad/parallel/train/data_parallel/join.h"
#include "ringrad/tests/parallel/comm/processes.h"

namespace ringrad {
namespace {

CommunicationHook hook_of(int which) {
  switch (which) {
    case 0:
      return compress_to(DType::float16);
    case 1:
      return top_k_compression({.ratio = 0.1});
    default:
      return power_sgd({.rank = 2});
  }
}

// Rank r has r + 1 batches. Returns all parameters.
std::vector<float> train(Communicator& comm, Overlap overlap, int which) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(16, 40), nn::ReLU(), nn::Linear(40, 40), nn::ReLU(),
                     nn::Linear(40, 4));
  DistributedDataParallel replica(net, comm, {.bucket_bytes = 5000, .overlap = overlap});
  replica.set_communication_hook(hook_of(which));
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  Generator generator(static_cast<std::uint64_t>(comm.rank()));
  Join join(replica);
  for (int step = 0; step <= comm.rank(); ++step) {
    optimizer.zero_grad();
    const Tensor x = randn({4 + step, 16}, {}, generator);
    cross_entropy(replica(x), randint(0, 4, {4 + step}, generator)).backward();
    optimizer.step();
  }
  join.finish([&] { optimizer.step(); });
  std::vector<float> all;
  for (const Tensor& parameter : net.parameters())
    for (const float value : parameter.to_vector<float>()) all.push_back(value);
  return all;
}

TEST(HooksDeathTest, ProcessesComputeWhatThreadsDo) {
  for (const int which : {0, 1, 2})
    for (const Overlap overlap : {Overlap::never, Overlap::always}) {
      testing::Processes processes(3, ProcessGroupOptions(),
                                   [=](Communicator& comm) -> std::string {
                                     const auto own = train(comm, overlap, which);
                                     std::vector<float> reference;
                                     run_ranks(3, [&](Communicator& thread) {
                                       const auto parameters = train(thread, Overlap::never, which);
                                       if (thread.rank() == 0) reference = parameters;
                                     });
                                     return own == reference ? "" : "other parameters than threads";
                                   });
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank << ", hook " << which;
    }
}

}  // namespace
}  // namespace ringrad
