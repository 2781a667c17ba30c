// Local and asynchronous training on process ranks, over shared memory and over Gloo; and the
// errors when a rank is killed.

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/parallel/train/data_parallel/distributed_data_parallel.h"
#include "ringrad/parallel/train/loose/local_sgd.h"
#include "ringrad/parallel/train/loose/parameter_server.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/parallel/train/small_training.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::Body;
using testing::kMomentumSgd;
using testing::loss_of;
using testing::Processes;

const testing::Join kGloo = [](Store& store, int rank, int world_size) {
  return join_gloo_group(store, "test", rank, world_size);
};

void expect_content(Processes& processes, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) EXPECT_EQ(processes.wait(rank), 0) << rank;
}

void train_everywhere(
    const Body& body, const std::function<void()>& prepare = [] {}) {
  constexpr int kRanks = 3;
  Processes of_shared_memory(kRanks, ProcessGroupOptions{}, body, prepare);
  expect_content(of_shared_memory, kRanks);
  Processes of_gloo(kRanks, kGloo, body);
  expect_content(of_gloo, kRanks);
}

std::string train_locally(Communicator& comm) {
  nn::Sequential net = testing::small_net();
  LocalSGD average(net, comm, {.period = 2});
  nn::SGD optimizer(net.parameters(), kMomentumSgd);
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    loss_of(net, comm.rank(), step).backward();
    optimizer.step();
    const bool has_averaged = average.step();
    EXPECT_EQ(replicas_identical(net, comm), has_averaged);
  }
  return {};
}

// `before_step` is called on workers with the step.
template <class BeforeStep>
void train_with_server(Communicator& comm, std::int64_t staleness, int num_steps,
                       BeforeStep before_step) {
  manual_seed(1);
  nn::Sequential net = testing::small_net();
  if (comm.rank() == 0) {
    nn::SGD optimizer(net.parameters(), kMomentumSgd);
    const auto report = serve_parameters(net, optimizer, comm, {.staleness = staleness});
    EXPECT_EQ(report.num_gradients, (std::vector<std::int64_t>{0, num_steps, num_steps}));
    EXPECT_LE(report.num_pulls_at_lead.size(), static_cast<std::size_t>(staleness) + 1);
  } else {
    ParameterClient client(net, comm);
    for (int step = 0; step < num_steps; ++step) {
      client.pull();
      before_step(step);
      loss_of(net, comm.rank(), step).backward();
      client.push();
    }
    client.finish();
  }
  EXPECT_TRUE(replicas_identical(net, comm));
}

std::string train_with_server(Communicator& comm) {
  for (const std::int64_t staleness : {0, 2}) train_with_server(comm, staleness, 5, [](int) {});
  return {};
}

TEST(LocalSGDDeathTest, TrainsOnProcesses) { train_everywhere(train_locally); }

TEST(ParameterServerDeathTest, TrainsOnProcesses) {
  train_everywhere([](Communicator& comm) { return train_with_server(comm); });
}

// Memory that a process needs to use GPUs at all does not count as leaked.
TEST(ParameterServerDeathTest, TrainsOnGpusOfProcesses) {
  const auto wake_gpus = [] {
    if (num_cuda_devices() > 0) synchronize("cuda");
  };
  train_everywhere(
      [](Communicator& comm) {
        if (num_cuda_devices() == 0) return std::string();
        const DefaultDeviceGuard guard(Device(DeviceType::cuda, comm.rank() % num_cuda_devices()));
        return train_with_server(comm) + train_locally(comm);
      },
      wake_gpus);
}

// The other ranks get an error that names `culprit`, whatever they are doing.
std::string expect_culprit(int culprit, const std::function<void()>& body) {
  try {
    body();
  } catch (const CollectiveError& error) {
    const bool is_named =
        error.message().find(concat("failure of rank ", culprit)) != std::string::npos ||
        error.message().find(concat("sign of life from rank ", culprit)) != std::string::npos;
    return is_named ? std::string() : concat("another culprit: ", error.what());
  }
  return "nobody failed";
}

TEST(ParameterServerDeathTest, AWorkerThatIsKilledEndsAll) {
  const Body body = [](Communicator& comm) {
    return expect_culprit(2, [&] {
      train_with_server(comm, 1, 1'000'000, [&](int step) {
        if (comm.rank() == 2 && step == 4) raise(SIGKILL);
      });
    });
  };
  Processes of_shared_memory(3, ProcessGroupOptions{}, body);
  Processes of_gloo(3, kGloo, body);
  for (Processes* processes : {&of_shared_memory, &of_gloo}) {
    EXPECT_EQ(processes->wait(2), -SIGKILL);
    EXPECT_EQ(processes->wait(0), 0);
    EXPECT_EQ(processes->wait(1), 0);
  }
}

TEST(ParameterServerDeathTest, AServerThatIsKilledEndsTheWorkers) {
  const Body body = [](Communicator& comm) {
    const Tensor server = full({1}, getpid(), {.dtype = DType::int64});
    comm.broadcast(server, 0);
    return expect_culprit(0, [&] {
      train_with_server(comm, 1, 1'000'000, [&](int step) {
        if (comm.rank() == 1 && step == 4) kill(static_cast<pid_t>(server.item<int>()), SIGKILL);
      });
    });
  };
  Processes of_shared_memory(3, ProcessGroupOptions{}, body);
  Processes of_gloo(3, kGloo, body);
  for (Processes* processes : {&of_shared_memory, &of_gloo}) {
    EXPECT_EQ(processes->wait(0), -SIGKILL);
    EXPECT_EQ(processes->wait(1), 0);
    EXPECT_EQ(processes->wait(2), 0);
  }
}

}  // namespace
}  // namespace ringrad
