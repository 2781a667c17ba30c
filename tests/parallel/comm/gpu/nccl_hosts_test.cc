// NCCL over groups that are not threads: Gloo's, and processes on one machine. The mock of NCCL
// serves the ranks of one process, so these are threads, each of which joins its group as a process
// of its own would.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/parallel/comm/store/store_server.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/gpu/use_mock_nccl.h"

namespace ringrad {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::kMockNcclFile;

constexpr std::chrono::seconds kDeadline(10);

std::unique_ptr<Communicator> join_gloo(Store& store, int rank, int world_size) {
  TransportOptions options;
  options.deadline = kDeadline;
  return join_gloo_group(store, "nccl", rank, world_size, options);
}

std::unique_ptr<Communicator> join_processes(Store& store, int rank, int world_size) {
  ProcessGroupOptions options;
  options.deadline = kDeadline;
  return join_process_group(store, "nccl", rank, world_size, options);
}

using Join = std::unique_ptr<Communicator> (*)(Store&, int, int);

class NcclHostsTest : public ::testing::TestWithParam<Join> {
 protected:
  void SetUp() override {
    if (!is_cuda_simulated()) GTEST_SKIP() << "real GPUs: see nccl_hardware_test";
    testing::use_mock_nccl();
  }
  void TearDown() override {
    if (!is_cuda_simulated()) return;
    const testing::MockNcclState after = testing::mock_nccl_state();
    EXPECT_EQ(after.num_live, 0);
    EXPECT_EQ(after.num_broken_rules, 0) << after.rule;
  }

  // Each rank is a thread with a GPU of its own.
  static void run(int world_size, const std::function<void(Communicator&)>& body) {
    const StoreServer server;
    std::latch all_joined(world_size);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < world_size; ++rank)
      ranks.emplace_back([&, rank] {
        const DefaultDeviceGuard guard(Device(DeviceType::cuda, rank));
        std::unique_ptr<Communicator> comm;
        try {
          Store store(server.address());
          comm = with_nccl(GetParam()(store, rank, world_size), default_device(),
                           {.deadline = kDeadline, .library = kMockNcclFile});
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
        all_joined.arrive_and_wait();  // tests may break the group only after this
        try {
          if (comm) body(*comm);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    for (std::thread& rank : ranks) rank.join();
  }
};

TEST_P(NcclHostsTest, CollectivesAreExact) {
  for (const int n : {1, 2, 3})
    run(n, [](Communicator& comm) {
      testing::expect_exact_collectives(comm);
      testing::expect_messages(comm);
    });
}

TEST_P(NcclHostsTest, DifferentCallsAreNamedOnEveryRank) {
  const testing::BackendTraits traits{.min_and_max_keep_nan = false, .has_one_numbering = false};
  run(3, [&](Communicator& comm) { testing::expect_differences_named(comm, traits); });
}

void call_and_wait(Communicator& comm) {
  const Tensor x = ones({100});
  comm.all_reduce(x);
  EXPECT_EQ(x.to_vector<int>(), std::vector<int>(100, comm.world_size()));
}

// Consumes errors that the GPU reports late, so that they do not reach the next test.
void drain() {
  try {
    synchronize(default_device());
  } catch (const CollectiveError&) {
  }
}

TEST_P(NcclHostsTest, AnAbortEndsAllRanks) {
  run(3, [](Communicator& comm) {
    call_and_wait(comm);
    comm.barrier();  // no rank is still in the first call
    if (comm.rank() == 1) comm.abort("enough");
    const std::string error = error_of([&] {
      for (;;) comm.all_reduce(ones({8}));
    });
    expect_contains(error, concat(" on rank ", comm.rank(), ": the group must be whole"));
    expect_contains(error, "got a failure of rank 1");
    EXPECT_EQ(comm.failed_rank(), 1);
    drain();
  });
}

TEST_P(NcclHostsTest, AnErrorOfNcclIsToldToAll) {
  testing::use_mock_nccl({.remote_error_at_call = 2});
  run(2, [](Communicator& comm) {
    call_and_wait(comm);
    comm.barrier();
    const std::string error = error_of([&] { call_and_wait(comm); });
    expect_contains(error, concat("#2 on rank ", comm.rank()));
    while (comm.failed_rank() < 0) std::this_thread::yield();
    drain();
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, NcclHostsTest, ::testing::Values(join_gloo, join_processes),
                         [](const auto& test) { return test.index == 0 ? "Gloo" : "Processes"; });

}  // namespace
}  // namespace ringrad
