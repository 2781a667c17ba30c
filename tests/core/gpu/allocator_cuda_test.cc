#include "ringrad/core/gpu/allocator_cuda.h"

#include <gtest/gtest.h>

#include <vector>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/core/transfer.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

constexpr std::size_t kMiB = 1 << 20;

// Turns the cache on and starts with an empty one.
class AllocatorCudaTest : public testing::NeedsGpu {
 protected:
  void SetUp() override {
    NeedsGpu::SetUp();
    set_cuda_caching(true);
    empty_cache(gpu);
    before_ = allocator_stats(gpu);
  }
  void TearDown() override {
    set_memory_limit(gpu, 0);
    empty_cache(gpu);
    EXPECT_EQ(allocator_stats(gpu).allocated_bytes, before_.allocated_bytes);
    EXPECT_EQ(allocator_stats(gpu).reserved_bytes, before_.reserved_bytes);
    NeedsGpu::TearDown();
  }

  std::int64_t reserved() const {
    return allocator_stats(gpu).reserved_bytes - before_.reserved_bytes;
  }

  AllocatorStats before_;
};

TEST_F(AllocatorCudaTest, AFreedBlockServesTheNextRequestOfItsStream) {
  void* first = cuda_allocate(1000, gpu);
  cuda_deallocate(first, gpu);
  void* second = cuda_allocate(900, gpu);
  EXPECT_EQ(second, first);
  cuda_deallocate(second, gpu);
}

TEST_F(AllocatorCudaTest, ATrainingLoopAsksTheRuntimeForNothingAfterItsFirstStep) {
  const auto step = [&] {
    std::vector<Tensor> live;
    for (const std::int64_t n : {10, 100'000, 3'000'000, 17, 400'000})
      live.push_back(empty({n}, {.device = gpu}));
  };
  step();
  const auto after_first = allocator_stats(gpu).num_system_allocations;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(allocator_stats(gpu).num_system_allocations, after_first);
}

TEST_F(AllocatorCudaTest, SmallBlocksShareASegment) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(cuda_allocate(4000, gpu));
  EXPECT_EQ(reserved(), static_cast<std::int64_t>(2 * kMiB));
  for (void* block : blocks) cuda_deallocate(block, gpu);
}

TEST_F(AllocatorCudaTest, FreedNeighboursServeALargerRequest) {
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(cuda_allocate(5 * kMiB, gpu));
  const std::int64_t used = reserved();
  for (void* block : blocks) cuda_deallocate(block, gpu);
  void* large = cuda_allocate(9 * kMiB, gpu);
  EXPECT_EQ(reserved(), used);
  cuda_deallocate(large, gpu);
}

TEST_F(AllocatorCudaTest, StreamsDoNotShareFreedBlocks) {
  const Stream side(gpu);
  void* first = cuda_allocate(1000, gpu);
  cuda_deallocate(first, gpu);
  const StreamGuard guard(side);
  void* other = cuda_allocate(1000, gpu);
  EXPECT_NE(other, first);
  cuda_deallocate(other, gpu);
}

TEST_F(AllocatorCudaTest, ARecordedStreamKeepsTheBlockUntilItIsDone) {
  const Stream side(gpu);
  void* block = cuda_allocate(1000, gpu);
  record_stream(block, side);
  std::vector<float> host(250, 1);
  {
    const StreamGuard guard(side);
    copy_bytes_async(block, gpu, host.data(), Device(), 1000, Where::current());
  }
  cuda_deallocate(block, gpu);  // no stream has waited for `side`
  void* other = cuda_allocate(1000, gpu);
  if (is_cuda_simulated()) {  // simulated GPUs make no progress by themselves
    EXPECT_NE(other, block);
  }
  side.synchronize();
  void* third = cuda_allocate(1000, gpu);
  EXPECT_EQ(third, block);
  cuda_deallocate(other, gpu);
  cuda_deallocate(third, gpu);
}

TEST_F(AllocatorCudaTest, RecordStreamRefusesMemoryThatIsNotAllocated) {
  int nothing = 0;
  expect_throws<ValueError>([&] { record_stream(&nothing, Stream(gpu)); },
                            "record_stream: the memory must be an allocated block");
}

TEST_F(AllocatorCudaTest, GivesTheCacheBackBeforeItRunsOut) {
  set_memory_limit(gpu, static_cast<std::size_t>(before_.reserved_bytes) + 64 * kMiB);
  for (const std::size_t mib : {40, 50, 60, 30}) {
    void* block = cuda_allocate(mib * kMiB, gpu);
    cuda_deallocate(block, gpu);
  }
  EXPECT_LE(reserved(), static_cast<std::int64_t>(64 * kMiB));
}

TEST_F(AllocatorCudaTest, RunningOutNamesTheHoldersOfTheMemory) {
  set_memory_limit(gpu, static_cast<std::size_t>(before_.reserved_bytes) + 64 * kMiB);
  const Tensor weights = empty({10 << 20}, {.device = gpu});
  const Tensor small = empty({5}, {.device = gpu});
  name_block(weights.raw_data(), gpu, "matmul");
  expect_throws<OutOfMemoryError>([&] { empty({10 << 20}, {.device = gpu}); },
                                  "allocate: 41943040 bytes must be available on cuda:0; got none");
  const std::string report = memory_report(gpu);
  const auto largest =
      report.find("41943040 bytes in 1 block by matmul at allocator_cuda_test.cc:");
  EXPECT_NE(largest, std::string::npos) << report;
  EXPECT_LT(largest, report.find("512 bytes in 1 block by allocator_cuda_test.cc:")) << report;
  empty({1 << 20}, {.device = gpu});  // smaller requests still succeed
}

TEST_F(AllocatorCudaTest, AnAbsurdRequestThrows) {
  expect_throws<OutOfMemoryError>([&] { cuda_allocate(std::size_t{1} << 55, gpu); },
                                  "bytes must be available on cuda:0");
}

TEST_F(AllocatorCudaTest, ADeviceThatDoesNotExistIsNamed) {
  expect_throws<DeviceError>([&] { empty({2}, {.device = "cuda:63"}); },
                             "cuda:63 must exist; got ");
  expect_throws<DeviceError>([&] { empty({0}, {.device = "cuda:63"}); },
                             "cuda:63 must exist; got ");
}

TEST_F(AllocatorCudaTest, PeakIsTheMostThatWasAllocatedAtOnce) {
  reset_peak_stats(gpu);
  const std::int64_t start = allocator_stats(gpu).allocated_bytes;
  { const Tensor a = empty({2 << 20}, {.device = gpu}), b = empty({2 << 20}, {.device = gpu}); }
  { const Tensor c = empty({3 << 20}, {.device = gpu}); }
  EXPECT_EQ(allocator_stats(gpu).peak_allocated_bytes - start, std::int64_t{16} << 20);
}

TEST_F(AllocatorCudaTest, ATensorOutlivesTheStreamItWasMadeOn) {
  for (const bool caching : {true, false}) {
    set_cuda_caching(caching);
    Tensor x;
    {
      const Stream side(gpu);
      const StreamGuard guard(side);
      x = full({1000}, 3, {.device = gpu});
      side.synchronize();
    }
    for (const float value : x.to_vector<float>()) ASSERT_EQ(value, 3);
    x = Tensor();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  set_cuda_caching(true);
}

TEST_F(AllocatorCudaTest, NoOtherRequestGetsMemoryOfAPrivatePool) {
  void* inside = nullptr;
  {
    PrivatePool pool(gpu);
    {
      const PrivatePool::Scope scope(pool);
      inside = cuda_allocate(1000, gpu);
      cuda_deallocate(inside, gpu);
      void* again = cuda_allocate(1000, gpu);
      EXPECT_EQ(again, inside);  // each replay uses the same memory
      cuda_deallocate(again, gpu);
    }
    void* outside = cuda_allocate(1000, gpu);
    EXPECT_NE(outside, inside);
    cuda_deallocate(outside, gpu);
  }
}

TEST_F(AllocatorCudaTest, MemoryOfAPrivatePoolOutlivesIt) {
  Tensor kept;
  {
    PrivatePool pool(gpu);
    const PrivatePool::Scope scope(pool);
    kept = full({3}, 7, {.device = gpu});
  }
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(3, 7));
}

// Blocks of random sizes on random streams. Each is filled with a number of its own, which is
// checked before the block is freed: no block may be handed out twice.
TEST_F(AllocatorCudaTest, RandomUseOnSeveralStreamsNeverSharesMemory) {
  testing::Random random(17);
  const Stream streams[] = {current_stream(gpu), Stream(gpu), Stream(gpu)};
  struct Live {
    Tensor tensor;
    float value;
    int stream;
  };
  std::vector<Live> live;
  const auto check = [&](const Live& one) {
    const StreamGuard guard(streams[one.stream]);
    for (const float value : one.tensor.to_vector<float>()) ASSERT_EQ(value, one.value);
  };
  for (int step = 0; step < 600; ++step) {
    if (live.size() > 20 || (!live.empty() && random.chance(0.45))) {
      const auto i =
          static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(live.size())));
      check(live[i]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    const int stream = static_cast<int>(random.integer(0, 3));
    const StreamGuard guard(streams[stream]);
    const auto value = static_cast<float>(step);
    const std::int64_t n =
        random.chance(0.1) ? random.integer(1, 700'000) : random.integer(1, 3000);
    live.push_back({full({n}, value, {.device = gpu}), value, stream});
  }
  for (const Live& one : live) check(one);
}

}  // namespace
}  // namespace ringrad
