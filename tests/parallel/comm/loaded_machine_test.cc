// Ranks on an overloaded machine: a slow rank is not taken for dead, and a stopped rank is named.
//
//     4 processes count, perhaps on 2 processors
//     3 ranks make 1000 calls; then rank 1 is stopped, and the others must name it in time

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/network/gloo_group.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kCalls = 1000;
constexpr milliseconds kDeadline(5000), kVerdictTime(5000);
// Only the blamed rank matters here. Tests on machines without load check the time more closely.
constexpr milliseconds kSlack(15'000);

// Processes that never wait.
class BusyLoops {
 public:
  explicit BusyLoops(int number) {
    for (int i = 0; i < number; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (std::atomic<std::uint64_t> count = 0;;) ++count;
      }
      children_.push_back(child);
    }
  }
  ~BusyLoops() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;

 private:
  std::vector<pid_t> children_;
};

std::string make_calls_and_stop_rank_1(Communicator& comm) {
  for (int i = 0; i < kCalls; ++i) {
    const Tensor x = ones({i % 10 == 0 ? 10'000 : 10});
    comm.all_reduce(x);
    if (x.data<float>()[x.numel() - 1] != 3) return concat("call ", i, " is wrong");
  }
  if (comm.rank() == 1) raise(SIGSTOP);
  const auto begin = Clock::now();
  try {
    comm.barrier();
    return "no error";
  } catch (const CollectiveError& error) {
    const std::string text = error.what();
    if (comm.failed_rank() != 1 || text.find("from rank 1") == text.npos) return text;
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  return took < kDeadline + kVerdictTime + kSlack ? "" : concat("it took ", took.count(), " s");
}

void run_on_loaded_machine(const testing::Join& join) {
  const BusyLoops load(4);
  testing::Processes processes(3, join, make_calls_and_stop_rank_1);
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

TEST(LoadedMachineTest, ProcessesOverGlooBlameNobodyButTheStoppedRank) {
  run_on_loaded_machine([](Store& store, int rank, int world_size) {
    TransportOptions options;
    options.deadline = kDeadline;
    options.verdict_time = kVerdictTime;
    return join_gloo_group(store, "test", rank, world_size, options);
  });
}

TEST(LoadedMachineTest, ProcessesOverSharedMemoryBlameNobodyButTheStoppedRank) {
  run_on_loaded_machine([](Store& store, int rank, int world_size) {
    ProcessGroupOptions options;
    options.deadline = kDeadline;
    options.verdict_time = kVerdictTime;
    return join_process_group(store, "test", rank, world_size, options);
  });
}

}  // namespace
}  // namespace ringrad
