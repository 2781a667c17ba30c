// Data parallel training on process ranks: the same bits as on threads, and a clean end when one of
// them is killed.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

#include "ringrad/autograd/loss/cross_entropy.h"
#include "ringrad/core/random/random.h"
#include "ringrad/nn/layers/linear.h"
#include "ringrad/nn/layers/sequential.h"
#include "ringrad/nn/optimizer/sgd.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/record/fault_point.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::seconds;

std::atomic<int> current_step = 0;

// Trains for `num_steps`, or forever if negative. Returns all parameters.
std::vector<float> train(Communicator& comm, Overlap overlap, int num_steps) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(16, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(),
                     nn::Linear(64, 4));
  DistributedDataParallel replica(net, comm, {.bucket_bytes = 5000, .overlap = overlap});
  nn::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  Generator generator(static_cast<std::uint64_t>(comm.rank()));
  for (int step = 0; step != num_steps; ++step) {
    current_step = step;
    optimizer.zero_grad();
    const Tensor x = randn({4, 16}, {}, generator);
    cross_entropy(replica(x), randint(0, 4, {4}, generator)).backward();
    optimizer.step();
  }
  EXPECT_GT(replica.num_buckets(), 1U);
  std::vector<float> all;
  for (const Tensor& parameter : net.parameters())
    for (const float value : parameter.to_vector<float>()) all.push_back(value);
  return all;
}

TEST(ProcessTrainingDeathTest, ProcessesComputeWhatThreadsDo) {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    testing::Processes processes(
        3, ProcessGroupOptions(), [overlap](Communicator& comm) -> std::string {
          const auto own = train(comm, overlap, 5);
          std::vector<float> reference;
          run_ranks(3, [&](Communicator& thread) {
            const auto parameters = train(thread, Overlap::never, 5);
            if (thread.rank() == 0) reference = parameters;
          });
          return std::memcmp(own.data(), reference.data(), own.size() * sizeof(float)) == 0
                     ? ""
                     : "other bits than threads";
        });
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
  }
}

// When the first bucket of the third step has been queued, and the second has not.
void die_between_buckets(FaultPoint point) {
  if (point == FaultPoint::bucket_launched && current_step == 2) raise(SIGKILL);
}

TEST(ProcessTrainingDeathTest, ARankThatIsKilledBetweenBucketsIsNamedByTheOthers) {
  for (const Overlap overlap : {Overlap::never, Overlap::always}) {
    ProcessGroupOptions options;
    options.deadline = seconds(5);
    testing::Processes processes(3, options, [overlap](Communicator& comm) -> std::string {
      if (comm.rank() == 1) fault_handler = die_between_buckets;
      try {
        train(comm, overlap, -1);
      } catch (const CollectiveError& error) {
        const std::string text = error.what();
        const bool in_bucket = text.starts_with("all_reduce(mean, float32, ");
        const bool named = text.find("got a failure of rank 1: it has died") != text.npos;
        return comm.failed_rank() == 1 && in_bucket && named ? "" : text;
      }
      return "no error";
    });
    for (const int rank : {0, 2}) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
    EXPECT_EQ(processes.wait(1), -SIGKILL);
  }
}

}  // namespace
}  // namespace ringrad
