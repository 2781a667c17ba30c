// Kernels that wait for each other and host threads that wait for them.

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "ringrad/tests/sim/simulated_test.h"

namespace ringrad {
namespace {

using sim::last_report;

__global__ void fill(int* p, int n, int value) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    p[i] = value;
}

__global__ void wait_for(const unsigned* flag, unsigned value) {
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value) __nanosleep(100);
}

__global__ void set_flag(unsigned* flag, unsigned value) {
  __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

__global__ void count(unsigned* arrived) { atomicAdd(arrived, 1u); }

__device__ void meet(unsigned* arrived, unsigned goal) {
  atomicAdd(arrived, 1u);
  while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < goal) __nanosleep(100);
}

__global__ void slow_rounds(unsigned* arrived, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(15)) continue;
    __syncthreads();
    if (threadIdx.x == 0) meet(arrived, round * gridDim.x);
    __syncthreads();
  }
}

__global__ void leaders_meet(unsigned* arrived) {
  if (threadIdx.x == 0) meet(arrived, gridDim.x);
  __syncthreads();
}

__global__ void grid_barrier(unsigned* arrived) {
  __syncthreads();
  if (threadIdx.x > 0) return;
  atomicAdd(arrived, 1u);
  while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) != gridDim.x) __nanosleep(100);
}

// One thread of each block takes part; the blocks may belong to any number of kernels.
__global__ void meet_all(unsigned* arrived, unsigned goal) {
  if (threadIdx.x == 0) meet(arrived, goal);
}

class WaitingTest : public sim::SimulatedTest {};

TEST_F(WaitingTest, KernelsOfTwoDevicesSeeEachOther) {
  unsigned* flag = upload(std::vector<unsigned>{0});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  ASSERT_EQ(launch({"wait_for", 4, 32}, wait_for, flag, 3u), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(launch({"set_flag", 1, 1}, set_flag, flag, 3u), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

TEST_F(WaitingTest, AHostThreadCanReleaseAKernelThatAnotherOneWaitsFor) {
  unsigned* flag = upload(std::vector<unsigned>{0});
  ASSERT_EQ(launch({"wait_for", 1, 1}, wait_for, flag, 1u), cudaSuccess);
  std::thread other([&] {
    const cudaStream_t stream = make_stream();
    EXPECT_EQ(
        launch({.name = "set_flag", .grid = 1, .block = 1, .stream = stream}, set_flag, flag, 1u),
        cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess) << last_report();
  });
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  other.join();
}

TEST_F(WaitingTest, PollingAnEventMakesProgress) {
  int* p = allocate<int>(4);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(launch({"fill", 1, 32}, fill, p, 4, 5), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event), cudaSuccess);
  int polls = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) ASSERT_LT(++polls, 100);
  EXPECT_GT(polls, 0);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// One thread waits for the record that an event held at the time of the call; meanwhile the event
// changes and is destroyed.
TEST_F(WaitingTest, AnEventMayChangeWhileAnotherThreadWaitsForIt) {
  unsigned* flag = upload(std::vector<unsigned>{0});
  const cudaStream_t stream = make_stream(), other = make_stream();
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  // Runs once the other thread waits, and not before.
  std::atomic<bool> begun = false;
  ASSERT_EQ(cudaLaunchHostFunc(
                stream, [](void* p) { *static_cast<std::atomic<bool>*>(p) = true; }, &begun),
            cudaSuccess);
  ASSERT_EQ(
      launch({.name = "wait_for", .grid = 1, .block = 1, .stream = stream}, wait_for, flag, 1u),
      cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  std::thread waiter([&] { EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess) << last_report(); });
  while (!begun) std::this_thread::yield();
  ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  ASSERT_EQ(
      launch({.name = "set_flag", .grid = 1, .block = 1, .stream = other}, set_flag, flag, 1u),
      cudaSuccess);
  waiter.join();
}

// Each round takes about half of the limit, and all rounds together several times the limit.
TEST_F(WaitingTest, BlocksThatWaitForSlowOnesAreNoDeadlock) {
  sim::reset({.hang_limit = std::chrono::milliseconds(100)});
  unsigned* arrived = upload(std::vector<unsigned>{0});
  LaunchConfig config{"slow_rounds", 2, 2};
  config.cooperative = true;
  ASSERT_EQ(launch(config, slow_rounds, arrived, 10), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

TEST_F(WaitingTest, TensOfThousandsOfThreadsCanWaitAtOnce) {
  unsigned* arrived = upload(std::vector<unsigned>{0});
  // The sanitizers keep several megabytes for each stack.
  LaunchConfig config{"leaders_meet", 132, sim::kTsan || sim::kAsan ? 2 : 256};
  config.cooperative = true;
  ASSERT_EQ(launch(config, leaders_meet, arrived), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

TEST_F(WaitingTest, OccupancyFollowsThreadsAndSharedMemory) {
  const auto blocks = [](int threads, std::size_t shared_bytes) {
    int count = -1;
    EXPECT_EQ(
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, leaders_meet, threads, shared_bytes),
        cudaSuccess);
    return count;
  };
  EXPECT_EQ(blocks(1024, 0), 2);
  EXPECT_EQ(blocks(33, 0), 32);
  EXPECT_EQ(blocks(256, 0), 8);
  EXPECT_EQ(blocks(256, 100 * 1024), 2);
  EXPECT_EQ(blocks(256, 300 * 1024), 0);
}

// As many blocks as the occupancy allows wait for each other; each is a barrier's participant.
TEST_F(WaitingTest, CooperativeBlocksMeetAtAGridBarrier) {
  constexpr int kBlocks = 132 * 2;
  unsigned* arrived = upload(std::vector<unsigned>{0});
  LaunchConfig config{"grid_barrier", kBlocks, 1024};
  config.cooperative = true;
  ASSERT_EQ(launch(config, grid_barrier, arrived), cudaSuccess) << last_report();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

TEST_F(WaitingTest, FreeingWaitsForItsOwnDeviceAlone) {
  unsigned* flag = nullptr;
  ASSERT_EQ(cudaMallocHost(&flag, sizeof *flag), cudaSuccess);
  __atomic_store_n(flag, 0u, __ATOMIC_RELEASE);
  int* p = allocate<int>(1);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(launch({"wait_for", 1, 1}, wait_for, flag, 1u), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  EXPECT_EQ(cudaFreeHost(flag), cudaSuccess);
}

// --- Residency: blocks that wait for each other must fit on the device ---

class ResidencyTest : public sim::SimulatedTest {
 protected:
  ResidencyTest() {
    sim::reset({.hang_limit = std::chrono::milliseconds(100)});
    arrived_ = upload(std::vector<unsigned>{0});
  }
  // Two blocks of this many threads are resident on each of 132 multiprocessors.
  static constexpr int kThreads = 1024;

  unsigned* arrived_ = nullptr;
};

TEST_F(ResidencyTest, OneBlockTooManyIsFound) {
  ASSERT_EQ(launch({"grid_barrier", 2 * 132 + 1, kThreads}, grid_barrier, arrived_), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
  EXPECT_THAT(last_report(),
              ::testing::HasSubstr("kernel 'grid_barrier' on device 0 has 265 blocks, of which at "
                                   "most 264 fit at the same time; 264 spin, and for 1 there is no "
                                   "room"));
}

// Each kernel fits alone.
TEST_F(ResidencyTest, KernelsThatDoNotFitBesideEachOtherAreFound) {
  const cudaStream_t first = make_stream(), second = make_stream();
  const auto begin = [&](cudaStream_t stream, unsigned blocks) {
    ASSERT_EQ(launch({.name = "meet_all", .grid = blocks, .block = kThreads, .stream = stream},
                     meet_all, arrived_, 265u),
              cudaSuccess);
  };
  begin(first, 200);
  begin(second, 65);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaErrorLaunchTimeout);
  EXPECT_THAT(last_report(), ::testing::HasSubstr("'meet_all' on device 0 has 65 blocks, of which "
                                                  "at most 264 fit at the same time; 64 spin, and "
                                                  "for 1 there is no room"));
}

TEST_F(ResidencyTest, KernelsThatFitBesideEachOtherMeet) {
  const cudaStream_t first = make_stream(), second = make_stream();
  for (const auto& [stream, blocks] : {std::pair{first, 200u}, std::pair{second, 64u}})
    ASSERT_EQ(launch({.name = "meet_all", .grid = blocks, .block = kThreads, .stream = stream},
                     meet_all, arrived_, 264u),
              cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
}

// Blocks that do not wait leave room for the next ones.
TEST_F(ResidencyTest, BlocksThatDoNotWaitNeedNotFit) {
  ASSERT_EQ(launch({"count", 1000, 32}, count, arrived_), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_report();
  EXPECT_EQ(download(arrived_, 1)[0], 1000u * 32);
}

// --- Hardware queues ---

// A device's streams share its queues in the order in which they were made. With two queues,
// `waiting_` and `setting_` share queue 1, and `unrelated_` shares queue 0 with the default stream.
class QueueTest : public sim::SimulatedTest {
 protected:
  void begin(std::size_t num_queues) {
    sim::reset({.num_queues = num_queues, .hang_limit = std::chrono::milliseconds(100)});
    flag_ = upload(std::vector<unsigned>{0});
    waiting_ = make_stream(), unrelated_ = make_stream(), setting_ = make_stream();
  }
  void wait_on(cudaStream_t stream) {
    ASSERT_EQ(
        launch({.name = "wait_for", .grid = 1, .block = 1, .stream = stream}, wait_for, flag_, 1u),
        cudaSuccess);
  }
  void set_on(cudaStream_t stream) {
    ASSERT_EQ(
        launch({.name = "set_flag", .grid = 1, .block = 1, .stream = stream}, set_flag, flag_, 1u),
        cudaSuccess);
  }

  unsigned* flag_ = nullptr;
  cudaStream_t waiting_ = nullptr, unrelated_ = nullptr, setting_ = nullptr;
};

// `after` is the stream that continues when the kernel has ended.
void order(cudaStream_t before, cudaStream_t after) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, before), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(after, event, 0), cudaSuccess);
  ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(QueueTest, AKernelThatSpinsHoldsNothingBack) {
  begin(2);
  wait_on(waiting_);
  set_on(setting_);
  EXPECT_EQ(cudaStreamSynchronize(waiting_), cudaSuccess) << last_report();
}

// A wait for the spinning kernel is queued before the kernel that would release it.
TEST_F(QueueTest, AWaitAtTheHeadHoldsOtherStreamsBack) {
  for (const bool awaits_setter : {false, true}) {
    begin(2);
    wait_on(unrelated_);          // stream 9 of the machine
    order(unrelated_, waiting_);  // stream 8: at the head of queue 1
    set_on(setting_);             // stream 10: behind it
    EXPECT_EQ(cudaStreamSynchronize(awaits_setter ? setting_ : unrelated_), cudaErrorLaunchTimeout);
    EXPECT_THAT(last_report(),
                ::testing::HasSubstr("one hardware queue of device 0 holds back 'set_flag' of "
                                     "stream 10: stream 8 is ahead in it and waits for 'wait_for' "
                                     "of stream 9"));
  }
}

TEST_F(QueueTest, WorkThatIsQueuedBeforeTheWaitIsNotHeldBack) {
  begin(2);
  wait_on(unrelated_);
  set_on(setting_);
  order(unrelated_, waiting_);
  EXPECT_EQ(cudaStreamSynchronize(waiting_), cudaSuccess) << last_report();
}

TEST_F(QueueTest, WorkOfAnotherQueueIsNotHeldBack) {
  begin(3);
  wait_on(unrelated_);
  order(unrelated_, waiting_);
  set_on(setting_);
  EXPECT_EQ(cudaStreamSynchronize(waiting_), cudaSuccess) << last_report();
}

// Work queued behind an op that waits for its own stream's kernel also waits, as on hardware.
TEST_F(QueueTest, AKernelThatWaitsForItsOwnStreamHoldsOtherStreamsBack) {
  begin(2);
  wait_on(waiting_);
  set_on(waiting_);
  set_on(setting_);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
  EXPECT_THAT(last_report(), ::testing::HasSubstr("holds back 'set_flag' of stream 10"));
}

}  // namespace
}  // namespace ringrad
