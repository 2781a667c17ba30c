// A job of eight logical ranks trains to the same bits on 1, 2, 4 and 8 physical ranks.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/nn/models/models.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/logical_ranks.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/data_parallel/sync_batch_norm.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using State = std::map<std::string, Tensor>;

constexpr int kLogical = 8;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kSteps = 3;  // as slow as 50 and more without sanitizers
#else
constexpr int kSteps = 50;
#endif
constexpr std::int64_t kBatch = 16, kSide = 8;

// The same program on any group: each rank trains on its part of the batch.
State train(Communicator& comm, int steps) {
  manual_seed(static_cast<std::uint64_t>(comm.rank()));  // rank 0's values win
  nn::Sequential net = nn::make_model("convnet", {.height = kSide, .width = kSide});
  synchronize_batch_norm(net, comm);
  DistributedDataParallel model(net, comm, {.bucket_bytes = 20'000, .overlap = Overlap::always});
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
  const std::int64_t part = kBatch / comm.world_size(), first = comm.rank() * part;
  for (int step = 0; step < steps; ++step) {
    Generator generator(100 + static_cast<std::uint64_t>(step));
    const Tensor x = randn({kBatch, 1, kSide, kSide}, {}, generator),
                 y = randint(0, 10, {kBatch}, generator);
    optimizer.zero_grad();
    cross_entropy(model(slice(x, 0, first, first + part)), slice(y, 0, first, first + part))
        .backward();
    optimizer.step();
  }
  EXPECT_TRUE(replicas_identical(net, comm));
  State state;
  for (const auto& [name, tensor] : net.state_dict())
    state[name] = testing::contiguous_copy(to_host(tensor.detach()));
  return state;
}

// Trains this physical rank's logical ranks; returns rank 0's state on the physical rank that has
// it.
State train_logical(Communicator& comm, int steps) {
  State state;
  run_logical_ranks(comm, kLogical, [&](Communicator& logical) {
    const State own = train(logical, steps);
    if (logical.rank() == 0) state = own;
  });
  return state;
}

State train_on_threads(int num_physical, int steps) {
  const Device device = default_device();
  State state;
  run_ranks(num_physical, [&](Communicator& comm) {
    const DefaultDeviceGuard guard(
        device.is_cuda() ? Device(DeviceType::cuda, comm.rank() % num_cuda_devices()) : device);
    const State own = train_logical(comm, steps);
    if (comm.rank() == 0) state = own;
  });
  return state;
}

void expect_same_state(const State& actual, const State& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    SCOPED_TRACE(name);
    expect_same_bits(actual.at(name), tensor);
  }
}

// All ranks run in processes, which compare.
TEST(LogicalTrainingDeathTest, ProcessesTrainToTheSameBits) {
  if (default_device().is_cuda()) GTEST_SKIP() << "a process that has used a GPU cannot fork";
  for (const int num_physical : {2, 4}) {
    testing::Processes processes(num_physical, ProcessGroupOptions(),
                                 [](Communicator& comm) -> std::string {
                                   const State state = train_logical(comm, kSteps);
                                   if (comm.rank() == 0)
                                     expect_same_state(state, train_on_threads(1, kSteps));
                                   comm.barrier();
                                   return "";
                                 });
    for (int rank = 0; rank < num_physical; ++rank)
      EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
  }
}

TEST(LogicalTrainingTest, AnyNumberOfPhysicalRanksTrainsToTheSameBits) {
  const int steps = default_device().is_cuda() ? 2 : kSteps;
  const State expected = train_on_threads(1, steps);
  EXPECT_EQ(expected.size(),
            16U);  // 4 layers with weight and bias; 2 norms with those and running statistics
  for (const int num_physical : {2, 4, 8}) {
    SCOPED_TRACE(num_physical);
    expect_same_state(train_on_threads(num_physical, steps), expected);
  }
}

}  // namespace
}  // namespace ringrad
