// The suite of every backend (backend_suite.h), for backends over shared memory; and the choice of
// a backend by name. Gloo and MPI have tests of their own.

#include <gtest/gtest.h>

#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/network/join_group.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/patience.h"
#include "ringrad/tests/parallel/comm/processes.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::expect_throws;
using testing::Processes;

testing::Join join_with(const ProcessGroupOptions& options) {
  return [options](Store& store, int rank, int world_size) {
    return join_process_group(store, "test", rank, world_size, options);
  };
}

void on_processes(int world_size, void (*body)(Communicator&),
                  const ProcessGroupOptions& options = {}) {
  Processes processes(world_size, join_with(options), [&](Communicator& comm) -> std::string {
    body(comm);
    return "";
  });
  for (int rank = 0; rank < world_size; ++rank)
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

TEST(BackendTest, ThreadsDoWhatEveryBackendDoes) {
  for (const int n : {1, 2, 3}) run_ranks(n, testing::run_backend_suite);
}

TEST(BackendTest, ProcessesDoWhatEveryBackendDoes) {
  for (const int n : {1, 2, 3}) on_processes(n, testing::run_backend_suite);
}

TEST(BackendTest, PlansThatAreChosenAddInRankOrder) {
  for (const int n : {2, 3, 4}) {
    run_ranks(n, testing::expect_canonical_bits);
    on_processes(n, testing::expect_canonical_bits);
  }
}

TEST(BackendTest, ALateRankIsNamed) {
  ProcessGroupOptions options;
  options.deadline = testing::kShortDeadline;
  for (const int n : {2, 4}) {
    run_ranks(n, testing::expect_late_rank_named, options);
    on_processes(n, testing::expect_late_rank_named, options);
  }
}

TEST(BackendTest, CountersMayPass32Bits) {
  ProcessGroupOptions options;
  options.deadline = milliseconds(5000);
  options.first_count = testing::kBeforeWrap;
  run_ranks(3, testing::expect_counters_wrap, options);
  on_processes(3, testing::expect_counters_wrap, options);
}

// --- By name ---

// This process is the only rank of its job.
TEST(BackendTest, EveryNameJoinsItsBackend) {
  EXPECT_EQ(backend_names(), (std::vector<std::string>{"processes", "gloo", "mpi",
                                                       "hierarchical_gloo", "hierarchical_mpi"}));
  for (const std::string& name : backend_names()) {
    const auto comm = join_group(name);
    EXPECT_EQ(comm->world_size(), 1) << name;
    testing::expect_sum_works(*comm);
  }
}

TEST(BackendTest, AnUnknownNameIsRefusedWithThoseThatAreKnown) {
  expect_throws<ValueError>(
      [] { join_group("carrier pigeons"); },
      "join_group: the backend must be one of processes, gloo, mpi, hierarchical_gloo, "
      "hierarchical_mpi; got "
      "\"carrier pigeons\"");
}

}  // namespace
}  // namespace ringrad
