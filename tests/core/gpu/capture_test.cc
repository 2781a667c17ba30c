#include "ringrad/core/capture.h"

#include <functional>
#include <vector>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;

// With and without the cache of allocator_cuda.h.
class CaptureTest : public testing::NeedsGpu, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    NeedsGpu::SetUp();
    set_cuda_caching(GetParam());
  }
  void TearDown() override {
    empty_cache(gpu);
    NeedsGpu::TearDown();
  }

  void copy(const Tensor& to, const Tensor& from) const {
    copy_bytes(to.raw_data(), gpu, from.raw_data(), gpu, from.storage()->bytes(), Where::current());
  }
};

// A captured kernel writes its memory in each replay, after the values of that replay have arrived.
TEST_P(CaptureTest, AReplayedValueSharesNoMemoryWithCapturedWork) {
  const Tensor zero = zeros({1}, {.device = gpu}), result = zeros({1}, {.device = gpu});
  float value = 0;
  Capture capture(gpu);
  capture.record([&] {
    {
      const Tensor freed = empty({1}, {.device = gpu});
      copy(freed, zero);
    }
    const float* const place = replayed_value<float>([&] { return value; });
    copy_bytes(result.raw_data(), gpu, place, gpu, sizeof value, Where::current());
  });
  for (value = 1; value < 4; ++value) {
    capture.replay();
    EXPECT_EQ(result.item(), value);
  }
}

TEST_P(CaptureTest, RecordingRunsNothingAndEachReplayRunsAll) {
  const Tensor input = full({4}, 1, {.device = gpu}), output = full({4}, 0, {.device = gpu});
  Capture capture(gpu);
  capture.record([&] { copy(output, input); });
  EXPECT_EQ(capture.num_nodes(), 1u);
  expect_close(output, {0, 0, 0, 0});
  capture.replay();
  expect_close(output, {1, 1, 1, 1});
  copy(input, full({4}, 2, {.device = gpu}));
  capture.replay();
  expect_close(output, {2, 2, 2, 2});
}

TEST_P(CaptureTest, WhatItAllocatesKeepsItsAddress) {
  const Tensor input = full({4}, 3, {.device = gpu}), output = full({4}, 0, {.device = gpu});
  Capture capture(gpu);
  capture.record([&] {
    const Tensor between = empty({4}, {.device = gpu});
    copy(between, input);
    copy(output, between);
  });
  std::vector<Tensor> others;  // would get the memory of `between` if it were free
  for (int i = 0; i < 8; ++i) others.push_back(full({4}, 9, {.device = gpu}));
  capture.replay();
  expect_close(output, {3, 3, 3, 3});
  for (const Tensor& other : others) expect_close(other, {9, 9, 9, 9});
}

TEST_P(CaptureTest, ReplayedValuesAreAskedForBeforeEachReplay) {
  const Tensor output = full({1}, 0, {.device = gpu});
  float value = 1;
  Capture capture(gpu);
  capture.record([&] {
    const float* place = replayed_value<float>([&] { return value; });
    copy_bytes(output.raw_data(), gpu, place, gpu, sizeof(float), Where::current());
  });
  for (const float next : {2.f, 5.f}) {
    value = next;
    capture.replay();
    EXPECT_EQ(output.item(), next);
  }
}

TEST_P(CaptureTest, RandomNumbersGoOnWithEachReplay) {
  const Tensor captured = empty({1000}, {.device = gpu}), eager = empty({1000}, {.device = gpu});
  Generator a(7), b(7);
  Capture capture(gpu);
  capture.record([&] { normal_(captured, 0, 1, a); });
  for (int replay = 0; replay < 3; ++replay) {
    capture.replay();
    normal_(eager, 0, 1, b);
    expect_same_bits(captured, eager);
    EXPECT_EQ(a.offset(), b.offset());
  }
}

TEST_P(CaptureTest, RefusesToWaitForWhatHasNotRun) {
  const Tensor x = full({2}, 1, {.device = gpu});
  const auto refuses = [&](const std::function<void()>& body, const char* what) {
    Capture capture(gpu);
    expect_throws<CudaError>([&] { capture.record(body); }, what);
    EXPECT_FALSE(is_capturing());
  };
  refuses([&] { view::select(x, 0, 0).item(); }, "got a copy to the CPU (item()");
  refuses([&] { x.to_vector<float>(); },
          "work that the device repeats alone; got a copy to the CPU (item()");
  refuses([&] { synchronize(gpu); }, "work that the device repeats alone; got synchronize()");
  refuses([&] { current_stream(gpu).synchronize(); }, "got synchronize()");
  refuses([&] { to_device(tensor({1., 2.}), gpu); }, "got a copy from the CPU");
  expect_close(x, {1, 1});  // everything works as before
}

TEST_P(CaptureTest, AFailedRecordingCanBeTriedAgain) {
  const Tensor x = full({2}, 1, {.device = gpu}), y = full({2}, 0, {.device = gpu});
  Capture capture(gpu);
  expect_throws<ValueError>([&] { capture.replay(); }, "it must be recorded before its replay");
  expect_throws<CudaError>([&] { capture.record([&] { copy(y, x), x.to_vector<float>(); }); },
                           "repeats alone");
  capture.record([&] { copy(y, x); });
  capture.replay();
  expect_close(y, {1, 1});
  expect_throws<ValueError>([&] { capture.record([] {}); }, "it can be recorded once");
}

TEST(CaptureOnCpuTest, IsRefused) {
  expect_throws<DeviceError>([] { Capture capture{Device()}; },
                             "capture: the device must be a GPU; got cpu:0");
}

INSTANTIATE_TEST_SUITE_P(Caching, CaptureTest, ::testing::Bool());

}  // namespace
}  // namespace ringrad
