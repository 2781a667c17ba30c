#include "ringrad/core/gpu/stream.h"

#include <cuda_runtime.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/transfer.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
class StreamTest : public testing::NeedsGpu {};

TEST_F(StreamTest, AsksForAllHardwareQueues) {
  const char* const asked = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  ASSERT_NE(asked, nullptr);
  EXPECT_STREQ(asked, "32");
}

TEST_F(StreamTest, TheCurrentStreamIsTheDefaultOneOutsideOfGuards) {
  EXPECT_EQ(current_stream(gpu).handle(), nullptr);
  const Stream outer(gpu), inner(gpu);
  {
    const StreamGuard guard(outer);
    EXPECT_EQ(current_stream(gpu), outer);
    {
      const StreamGuard nested(inner);
      EXPECT_EQ(current_stream(gpu), inner);
    }
    EXPECT_EQ(current_stream(gpu), outer);
    std::thread([&] { EXPECT_EQ(current_stream(gpu).handle(), nullptr); }).join();
  }
  EXPECT_EQ(current_stream(gpu).handle(), nullptr);
}

TEST_F(StreamTest, ADeviceGuardGivesTheDeviceBack) {
  if (!has_two()) GTEST_SKIP() << "one GPU only";
  int now = -1;
  {
    const DeviceGuard guard(other_gpu);
    cudaGetDevice(&now);
    EXPECT_EQ(now, 1);
  }
  cudaGetDevice(&now);
  EXPECT_EQ(now, 0);
}

TEST_F(StreamTest, AnEventOrdersTwoStreams) {
  const Stream first(gpu), second(gpu);
  const std::int64_t n = 1 << 20;
  const Tensor source = full({n}, 1, {.device = gpu}), middle = full({n}, 0, {.device = gpu}),
               result = full({n}, 0, {.device = gpu});
  synchronize(gpu);
  const auto bytes = static_cast<std::size_t>(n) * sizeof(float);
  {
    const StreamGuard guard(first);
    copy_bytes(middle.raw_data(), gpu, source.raw_data(), gpu, bytes, Where::current());
  }
  Event(first).block(second);
  {
    const StreamGuard guard(second);
    copy_bytes(result.raw_data(), gpu, middle.raw_data(), gpu, bytes, Where::current());
  }
  second.synchronize();
  for (const float value : result.to_vector<float>()) ASSERT_EQ(value, 1);
}

TEST_F(StreamTest, AnEventIsDoneOnceItsStreamIs) {
  const Stream stream(gpu);
  const Event event(stream);
  event.synchronize();
  EXPECT_TRUE(event.is_done());
}

TEST_F(StreamTest, EventsWithTimingTellHowLongWorkTook) {
  const Stream stream(gpu);
  const Tensor a = full({1 << 20}, 1, {.device = gpu}), b = full({1 << 20}, 0, {.device = gpu});
  synchronize(gpu);
  const Event begin(stream, /*timing=*/true);
  {
    const StreamGuard guard(stream);
    copy_bytes(b.raw_data(), gpu, a.raw_data(), gpu, std::size_t{4} << 20, Where::current());
  }
  const Event end(stream, /*timing=*/true);
  end.synchronize();
  EXPECT_GT(Event::milliseconds(begin, end), 0);
  const Event untimed(stream);
  untimed.synchronize();
  expect_throws<CudaError>([&] { Event::milliseconds(untimed, end); }, "cudaErrorInvalid");
}

TEST_F(StreamTest, AStreamNeedsAGpuThatExists) {
  expect_throws<DeviceError>([] { Stream(Device("cpu:0")); }, "must be a GPU; got cpu:0");
  expect_throws<DeviceError>([] { Stream(Device("cuda:63")); }, "cuda:63 must exist");
}

TEST_F(StreamTest, AFailedCallNamesItself) {
  expect_throws<CudaError>([] { RINGRAD_CUDA_CHECK(cudaSetDevice(-1), Where::current()); },
                           "cuda: the call must succeed; got cudaErrorInvalidDevice");
}

}  // namespace
}  // namespace ringrad
