// One rank of a job on several hosts, for tools/test_two_hosts: collectives over the network
// between them.
//
//     network_ranks BACKEND                      the suite of every backend
//     network_ranks BACKEND STEPS DEADLINE_MS    STEPS all_reduces of 1 MiB, whose sums it checks
//
// Rank 0 prints "step K" after each step, and "done" at the end. Exits with 0 on success, with 3
// after a failure, and with 4 for a wrong result. After a failure stderr has "after T s: REASON",
// where T is how long the failed call took.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "ringrad/parallel/comm/network/join_group.h"
#include "ringrad/parallel/comm/record/fault_injection.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"

namespace ringrad {
namespace {

using Clock = std::chrono::steady_clock;

void say(const Communicator& comm, const std::string& what) {
  if (comm.rank() > 0) return;
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
}

// The settings of the command line.
std::string backend;
GroupOptions options;

TEST(NetworkTest, DoesWhatEveryBackendDoes) {
  const auto comm = join_group(backend, options);
  testing::run_backend_suite(*comm);
  testing::expect_canonical_bits(*comm);
}

int run_steps(int num_steps) {
  auto begin = Clock::now();
  std::unique_ptr<Communicator> comm;  // the time to leave the group does not count
  try {
    comm = join_group(backend, options);
    const int n = comm->world_size();
    const Tensor x = empty({1 << 18});
    for (int step = 1; step <= num_steps; ++step) {
      fault_step();
      for (int i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(comm->rank() + i);
      begin = Clock::now();
      comm->all_reduce(x);
      for (int i = 0; i < x.numel(); ++i)
        if (x.data<float>()[i] != static_cast<float>(n * (n - 1) / 2 + n * i)) return 4;
      say(*comm, concat("step ", step));
    }
    say(*comm, "done");
    return 0;
  } catch (const std::exception& error) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::fprintf(stderr, "after %.2f s: %s\n", seconds, error.what());
    return 3;
  }
}

}  // namespace
}  // namespace ringrad

int main(int argc, char** argv) {
  ringrad::backend = argv[1];
  if (argc > 3) {
    ringrad::options.deadline = std::chrono::milliseconds(std::atoi(argv[3]));
    return ringrad::run_steps(std::atoi(argv[2]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS() == 0 ? 0 : 4;
}
