// The scheduler of one block alone: no devices, no memory, no runtime.

#include "ringrad/sim/block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/sim/device/atomic.h"
#include "ringrad/sim/device/device.h"
#include "ringrad/sim/device/launch.h"
#include "ringrad/sim/device/warp.h"
#include "ringrad/sim/sanitizers.h"

namespace ringrad::sim {
namespace {

Kernel kernel_of(unsigned threads, std::function<void()> body) {
  Kernel kernel;
  kernel.name = "probe";
  kernel.block = dim3(threads);
  kernel.body = std::move(body);
  return kernel;
}

class BlockTest : public testing::Test {
 protected:
  Block::State run(const Kernel& kernel, std::uint64_t index = 0) {
    release(kernel.queued);
    {
      const Unseen unseen;
      block_.begin(kernel, index);
    }
    return resume(kernel);
  }
  Block::State resume(const Kernel& kernel) {
    Block::State state;
    {
      const Unseen unseen;
      state = block_.run();
    }
    acquire(kernel.done);
    return state;
  }
  const std::string& message() const { return block_.fault().message; }

  ThreadPool pool_;
  Block block_{pool_};
};

TEST_F(BlockTest, RunsEveryThreadOnce) {
  std::vector<int> runs(1000);
  EXPECT_EQ(run(kernel_of(1000, [&] { ++runs[threadIdx.x]; })), Block::State::finished);
  EXPECT_EQ(runs, std::vector<int>(1000, 1));
}

TEST_F(BlockTest, TellsEachThreadItsIndices) {
  Kernel kernel;
  kernel.grid = {3, 4, 5};
  kernel.block = {2, 3, 4};
  std::vector<std::array<unsigned, 3>> seen(24);
  kernel.body = [&] {
    seen[threadIdx.x + 2 * (threadIdx.y + 3 * threadIdx.z)] = {threadIdx.x, threadIdx.y,
                                                               threadIdx.z};
    EXPECT_EQ(blockIdx.x, 2u);
    EXPECT_EQ(blockIdx.y, 1u);
    EXPECT_EQ(blockIdx.z, 4u);
    EXPECT_EQ(blockDim.y, 3u);
    EXPECT_EQ(gridDim.z, 5u);
  };
  EXPECT_EQ(run(kernel, 2 + 3 * (1 + 4 * 4)), Block::State::finished);
  EXPECT_EQ(seen[1], (std::array{1u, 0u, 0u}));
  EXPECT_EQ(seen[2], (std::array{0u, 1u, 0u}));
  EXPECT_EQ(seen[23], (std::array{1u, 2u, 3u}));
}

// After a barrier every thread sees the writes that all threads made before it; no thread is a
// barrier ahead.
TEST_F(BlockTest, NobodyPassesABarrierBeforeAllHaveComeToIt) {
  constexpr unsigned kThreads = 97, kRounds = 50;
  std::vector<unsigned> round(kThreads);
  const auto body = [&] {
    for (unsigned r = 1; r <= kRounds; ++r) {
      round[threadIdx.x] = r;
      __syncthreads();
      EXPECT_EQ(std::count(round.begin(), round.end(), r), kThreads);
      __syncthreads();
    }
  };
  EXPECT_EQ(run(kernel_of(kThreads, body)), Block::State::finished);
}

TEST_F(BlockTest, BarriersCountVotes) {
  std::vector<int> counts(64), any(64), all(64);
  const auto body = [&] {
    const unsigned t = threadIdx.x;
    counts[t] = __syncthreads_count(t < 5);
    any[t] = __syncthreads_or(t == 63);
    all[t] = __syncthreads_and(t != 63);
  };
  EXPECT_EQ(run(kernel_of(64, body)), Block::State::finished);
  EXPECT_EQ(counts, std::vector<int>(64, 5));
  EXPECT_EQ(any, std::vector<int>(64, 1));
  EXPECT_EQ(all, std::vector<int>(64, 0));
}

TEST_F(BlockTest, ShufflesMoveValuesBetweenLanes) {
  std::vector<int> down(96), up(96), xored(96), broadcast(96), halves(96);
  const auto body = [&] {
    const int t = static_cast<int>(threadIdx.x);
    down[t] = __shfl_down_sync(~0u, t, 3);
    up[t] = __shfl_up_sync(~0u, t, 3);
    xored[t] = __shfl_xor_sync(~0u, t, 5);
    broadcast[t] = __shfl_sync(~0u, t, 7);
    halves[t] = __shfl_down_sync(~0u, t, 12, 16);
  };
  EXPECT_EQ(run(kernel_of(96, body)), Block::State::finished);
  for (int t = 0; t < 96; ++t) {
    const int lane = t % 32;
    EXPECT_EQ(down[t], lane + 3 < 32 ? t + 3 : t);
    EXPECT_EQ(up[t], lane - 3 >= 0 ? t - 3 : t);
    EXPECT_EQ(xored[t], t ^ 5);
    EXPECT_EQ(broadcast[t], t - lane + 7);
    EXPECT_EQ(halves[t], lane % 16 + 12 < 16 ? t + 12 : t);
  }
}

// A lane may run ahead of the others, to the next shuffle but not past it.
TEST_F(BlockTest, ManyShufflesInARowDoNotMix) {
  std::vector<long> sums(64);
  const auto body = [&] {
    long sum = 0;
    for (int round = 0; round < 200; ++round)
      sum += __shfl_sync(~0u, static_cast<int>(threadIdx.x) * 1000 + round, round % 32);
    sums[threadIdx.x] = sum;
  };
  EXPECT_EQ(run(kernel_of(64, body)), Block::State::finished);
  for (int t = 0; t < 64; ++t) {
    long expected = 0;
    for (int round = 0; round < 200; ++round) expected += (t / 32 * 32 + round % 32) * 1000 + round;
    EXPECT_EQ(sums[t], expected);
  }
}

TEST_F(BlockTest, VotesSeeTheLanesOfTheMask) {
  unsigned ballot = 0, odd_ballot = 0;
  int any = -1, all = -1;
  const auto body = [&] {
    const unsigned t = threadIdx.x;
    const unsigned everyone = __ballot_sync(~0u, t % 3 == 0);
    const int some = __any_sync(~0u, t == 40), none_missing = __all_sync(~0u, t < 32);
    if (t == 0) ballot = everyone, any = some, all = none_missing;
    if (t % 2 == 1) {
      const unsigned of_odd = __ballot_sync(0xaaaaaaaau, t < 4);
      if (t == 1) odd_ballot = of_odd;
    }
    __syncwarp();
  };
  EXPECT_EQ(run(kernel_of(32, body)), Block::State::finished);
  EXPECT_EQ(ballot, 0x49249249u);
  EXPECT_EQ(any, 0);
  EXPECT_EQ(all, 1);
  EXPECT_EQ(odd_ballot, 0xau);
}

// The last warp of a block may have fewer lanes; a full mask means those that exist.
TEST_F(BlockTest, APartialWarpMeetsWithItself) {
  std::vector<unsigned> ballots(40);
  EXPECT_EQ(run(kernel_of(40, [&] { ballots[threadIdx.x] = __ballot_sync(~0u, 1); })),
            Block::State::finished);
  EXPECT_EQ(ballots[0], ~0u);
  EXPECT_EQ(ballots[39], 0xffu);
}

// Values that earlier blocks left in the slots of nonexistent lanes must not count.
TEST_F(BlockTest, VotesAndShufflesOfAPartialWarpForgetEarlierBlocks) {
  ASSERT_EQ(run(kernel_of(32, [] { __shfl_sync(~0u, 7, 0); })), Block::State::finished);
  ASSERT_EQ(run(kernel_of(32, [] { __ballot_sync(~0u, 1); })), Block::State::finished);
  std::vector<unsigned> ballots(20);
  std::vector<int> any(20), all(20), beyond(20);
  const auto body = [&] {
    const unsigned t = threadIdx.x;
    ballots[t] = __ballot_sync(~0u, 1);
    any[t] = __any_sync(~0u, 0);
    all[t] = __all_sync(~0u, 1);
    beyond[t] = __shfl_sync(~0u, 5, 31);
  };
  EXPECT_EQ(run(kernel_of(20, body)), Block::State::finished);
  EXPECT_EQ(ballots, std::vector<unsigned>(20, 0xfffff));
  EXPECT_EQ(any, std::vector<int>(20, 0));
  EXPECT_EQ(all, std::vector<int>(20, 1));
  EXPECT_EQ(beyond, std::vector<int>(20, -1));
}

TEST_F(BlockTest, SpinningIsNoProgressAndMeetingIs) {
  std::atomic<bool> flag = false;
  int counter = 0;
  const auto body = [&] {
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&counter, 1);
    while (!flag) __nanosleep(1);
  };
  const Kernel kernel = kernel_of(10, body);
  const std::uint64_t begun = block_.progress();
  EXPECT_EQ(run(kernel), Block::State::spinning);
  const std::uint64_t met = block_.progress();
  EXPECT_EQ(met, begun + 2);
  EXPECT_EQ(resume(kernel), Block::State::spinning);
  EXPECT_EQ(block_.progress(), met);
  flag = true;
  EXPECT_EQ(resume(kernel), Block::State::finished);
  EXPECT_EQ(block_.progress(), met + 10);
}

TEST_F(BlockTest, SpinningThreadsReturnTheTurn) {
  std::atomic<bool> flag = false;
  std::atomic<int> passed = 0;
  const auto body = [&] {
    while (!flag) __nanosleep(100);
    ++passed;
  };
  const Kernel kernel = kernel_of(10, body);
  EXPECT_EQ(run(kernel), Block::State::spinning);
  EXPECT_EQ(resume(kernel), Block::State::spinning);
  EXPECT_EQ(passed, 0);
  flag = true;
  EXPECT_EQ(resume(kernel), Block::State::finished);
  EXPECT_EQ(passed, 10);
}

TEST_F(BlockTest, ThreadsThatSpinLetOthersOfTheirBlockRun) {
  std::atomic<bool> flag = false;
  const auto body = [&] {
    if (threadIdx.x == 9) flag = true;
    while (!flag) __nanosleep(100);
    __syncthreads();
  };
  const Kernel kernel = kernel_of(10, body);
  Block::State state = run(kernel);
  if (state == Block::State::spinning) state = resume(kernel);
  EXPECT_EQ(state, Block::State::finished);
}

TEST_F(BlockTest, SharedMemoryIsOfOneBlockAndStartsUnwritten) {
  int clean = 0;
  const auto body = [&] {
    RINGRAD_SHARED(float, tile, [4][8]);
    RINGRAD_SHARED(int, number);
    if (threadIdx.x == 0 && std::isnan(tile[3][7]) && number == -1) ++clean;
    __syncthreads();
    tile[threadIdx.x / 8][threadIdx.x % 8] = static_cast<float>(threadIdx.x);
    if (threadIdx.x == 0) number = 0;
    __syncthreads();
    EXPECT_EQ(tile[(31 - threadIdx.x) / 8][(31 - threadIdx.x) % 8], 31.0f - threadIdx.x);
  };
  const Kernel kernel = kernel_of(32, body);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(kernel), Block::State::finished);
  EXPECT_EQ(clean, 3);
}

// Random programs of barriers, warp barriers and spins, the same for all threads, must end.
TEST_F(BlockTest, RandomProgramsEnd) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<int> program(20);
    for (int& step : program) step = static_cast<int>(random() % 3);
    const unsigned threads = 1 + random() % 300;
    std::vector<int> done(threads);
    const auto body = [&] {
      for (const int step : program) {
        if (step == 0) __syncthreads();
        if (step == 1) __syncwarp();
        if (step == 2 && threadIdx.x % 7 == 0) __nanosleep(1);
        ++done[threadIdx.x];
      }
    };
    const Kernel kernel = kernel_of(threads, body);
    Block::State state = run(kernel);
    for (int turns = 0; state == Block::State::spinning && turns < 100; ++turns)
      state = resume(kernel);
    ASSERT_EQ(state, Block::State::finished) << "seed " << seed << ": " << message();
    ASSERT_EQ(done, std::vector<int>(threads, 20)) << "seed " << seed;
  }
}

// --- Faults --------------------------------------------------------------------------------------

TEST_F(BlockTest, NamesAThreadThatReturnsBeforeABarrier) {
  const auto body = [] {
    if (threadIdx.x == 13) return;
    __syncthreads();
  };
  EXPECT_EQ(run(kernel_of(64, body)), Block::State::failed);
  EXPECT_NE(message().find("divergence"), std::string::npos) << message();
  EXPECT_NE(message().find("thread (13, 0, 0)"), std::string::npos) << message();
  EXPECT_NE(message().find("13 in __syncthreads() at block_test.cc:"), std::string::npos)
      << message();
}

TEST_F(BlockTest, NamesAThreadThatComesToABarrierAfterOthersReturned) {
  const auto body = [] {
    if (threadIdx.x < 63) return;
    __syncthreads();
  };
  EXPECT_EQ(run(kernel_of(64, body)), Block::State::failed);
  EXPECT_NE(message().find("thread (63, 0, 0) called __syncthreads() at block_test.cc:"),
            std::string::npos)
      << message();
}

TEST_F(BlockTest, RefusesBarriersAtDifferentPlaces) {
  const auto body = [] {
    if (threadIdx.x < 32)
      __syncthreads();
    else
      __syncthreads();
  };
  EXPECT_EQ(run(kernel_of(64, body)), Block::State::failed);
  EXPECT_NE(message().find("divergence"), std::string::npos) << message();
}

TEST_F(BlockTest, RefusesAShuffleThatNamesAReturnedLane) {
  const auto body = [] {
    if (threadIdx.x == 0) return;
    __shfl_sync(~0u, 1, 5);
  };
  EXPECT_EQ(run(kernel_of(32, body)), Block::State::failed);
  EXPECT_NE(message().find("__shfl_sync()"), std::string::npos) << message();
}

TEST_F(BlockTest, RefusesAMaskWithoutTheLaneItself) {
  EXPECT_EQ(run(kernel_of(32, [] { __syncwarp(1); })), Block::State::failed);
  EXPECT_NE(message().find("thread (1, 0, 0)"), std::string::npos) << message();
  EXPECT_NE(message().find("leaves it out"), std::string::npos) << message();
}

TEST_F(BlockTest, ReportsThreadsThatWaitForEachOther) {
  const auto body = [] {
    if (threadIdx.x >= 32 && threadIdx.x % 2)
      __syncwarp();
    else
      __syncthreads();
  };
  EXPECT_EQ(run(kernel_of(64, body)), Block::State::failed);
  EXPECT_NE(message().find("deadlock"), std::string::npos) << message();
  EXPECT_NE(message().find("48 in __syncthreads()"), std::string::npos) << message();
  EXPECT_NE(message().find("16 in __syncwarp()"), std::string::npos) << message();
}

TEST_F(BlockTest, StopsAtATrap) {
  std::atomic<int> later = 0;
  const auto body = [&] {
    if (threadIdx.x == 3) __trap();
    ++later;
  };
  EXPECT_EQ(run(kernel_of(64, body)), Block::State::failed);
  EXPECT_EQ(later, 3);
  EXPECT_NE(message().find("thread (3, 0, 0) called __trap() at block_test.cc:"), std::string::npos)
      << message();
}

TEST_F(BlockTest, StopsAtAnException) {
  EXPECT_EQ(run(kernel_of(2, [] { throw 1; })), Block::State::failed);
  EXPECT_NE(message().find("a C++ exception left kernel 'probe'"), std::string::npos) << message();
}

TEST_F(BlockTest, StopsWhenSharedMemoryIsUsedUp) {
  const auto body = [] {
    RINGRAD_SHARED(char, a, [40'000]);
    RINGRAD_SHARED(char, b, [10'000]);
    a[0] = b[0] = 0;
  };
  EXPECT_EQ(run(kernel_of(2, body)), Block::State::failed);
  EXPECT_NE(message().find("48 KiB"), std::string::npos) << message();
}

TEST_F(BlockTest, RunsTheNextKernelAfterAFault) {
  for (int i = 0; i < 3; ++i) {
    const auto body = [] {
      __syncwarp();
      if (threadIdx.x == 50) __trap();
      __syncthreads();
    };
    EXPECT_EQ(run(kernel_of(64, body)), Block::State::failed);
    EXPECT_EQ(run(kernel_of(64, [] { __syncthreads(); })), Block::State::finished);
  }
}

}  // namespace
}  // namespace ringrad::sim
