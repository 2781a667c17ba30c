// Collectives of more bytes and more elements than 31 bits count, over every backend except MPI
// (mpi_ranks.cc has that case). Two ranks need up to 22 GB, so CI does not run this test;
// docs/collectives.md has the last figures.

#include <gtest/gtest.h>

#include <chrono>

#include "ringrad/core/base/allocator.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/parallel/comm/network/hierarchical_group.h"
#include "ringrad/tests/parallel/comm/large_calls.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::use_large_tensors;

constexpr std::chrono::minutes kDeadline(5), kHangs(40);  // of a call, and of all of them

TEST(LargeTest, IsExactAmongThreads) {
  run_ranks(2, [](Communicator& comm) { EXPECT_EQ(use_large_tensors(comm), ""); },
            {.deadline = kDeadline});
  empty_cache();  // the other cases fork their ranks from this process: they would inherit it all
}

void expect_large_among_processes(const testing::Join& join) {
  testing::Processes processes(2, join, use_large_tensors);
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank, kHangs), 0);
}

TEST(LargeTest, IsExactAmongProcesses) {
  expect_large_among_processes([](Store& store, int rank, int size) {
    ProcessGroupOptions options;
    options.deadline = kDeadline;
    return join_process_group(store, "large", rank, size, options);
  });
}

TEST(LargeTest, IsExactOverGloo) {
  expect_large_among_processes([](Store& store, int rank, int size) {
    TransportOptions options;
    options.deadline = kDeadline;
    return join_gloo_group(store, "large", rank, size, options);
  });
}

// Each rank is on a host of its own, so all data goes through the leaders.
TEST(LargeTest, IsExactBetweenHosts) {
  expect_large_among_processes([](Store& store, int rank, int size) {
    TransportOptions network;
    network.deadline = kDeadline + kNetworkPatience;
    HierarchicalOptions options;
    options.deadline = kDeadline;
    options.host = concat("host", rank);
    return make_hierarchical_group(join_gloo_group(store, "large", rank, size, network), store,
                                   options);
  });
}

}  // namespace
}  // namespace ringrad
