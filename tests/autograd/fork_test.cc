// A process that is forked after the library has used threads computes what its parent computes.

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"

namespace ringrad {
namespace {

// The child's exit status: 0 if body() is true. The parent kills a child that hangs: one that hangs
// within fork() could not set an alarm of its own.
template <class Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int status = -1;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() > deadline) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ended, child);
  return status;
}

TEST(ForkTest, AChildComputesAfterItsParentUsedSeveralThreads) {
  omp_set_num_threads(2);
  const Tensor x = reshape(arange(0.0, 1 << 20) / (1 << 20), {1024, 1024});
  const auto compute = [&] { return sum(exp(x)).item() + sum(matmul(x, x)).item(); };
  const float expected = compute();
  EXPECT_EQ(status_of_child([&] { return std::abs(compute() / expected - 1) < 1e-4F; }), 0);
  EXPECT_EQ(omp_get_max_threads(), 2);
  EXPECT_EQ(compute(), expected);
}

TEST(ForkTest, AChildAllocatesThoughAnotherThreadDidWhenItWasForked) {
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) empty({1 << 12});  // takes the lock that large blocks share
  });
  for (int round = 0; round < 50; ++round)
    EXPECT_EQ(status_of_child([] { return empty({1 << 12}).defined(); }), 0) << round;
  done = true;
  other.join();
}

// Such as a server that forks its workers before any of them computes.
TEST(ForkDeathTest, AChildOfAProcessThatMadeNoTensorUsesAllThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // another test may have made a tensor
  const auto fork_at_once = [] {
    omp_set_num_threads(2);
    _exit(status_of_child([] { return omp_get_max_threads() == 2 && ones({1}).defined(); }) == 0
              ? 0
              : 1);
  };
  EXPECT_EXIT(fork_at_once(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ringrad
