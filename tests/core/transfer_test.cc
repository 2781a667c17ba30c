#include "ringrad/core/transfer.h"

#include <sstream>

#include "ringrad/core/gpu/allocator_cuda.h"
#include "ringrad/core/pinned_memory.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/tests/core/gpu/needs_gpu.h"
#include "ringrad/tests/parallel/comm/stall.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::Random;

class TransferTest : public testing::NeedsGpu {
  const DefaultDeviceGuard on_cpu_{Device()};
};

TEST_F(TransferTest, ATensorComesBackAsItWent) {
  Random random(1);
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                            DType::int32, DType::int64, DType::uint8, DType::bool_})
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0}, Shape{1000}, Shape{2, 3, 4}}) {
      const Tensor x = random.tensor(shape, dtype);
      const Tensor there = to_device(x, gpu);
      EXPECT_EQ(there.device(), gpu);
      expect_same_bits(to_host(there), x);
    }
}

TEST_F(TransferTest, ViewsOfAGpuAreReadInTheirOwnOrder) {
  const Tensor x = to_device(view::reshape(arange(24.f), {2, 3, 4}), gpu);
  const Tensor view = view::slice(view::transpose(x, 0, 2), 0, 1, 4, 2);
  expect_close(view, {1, 13, 5, 17, 9, 21, 3, 15, 7, 19, 11, 23});
  EXPECT_EQ(view::select(view::select(view, 0, 1), 0, 2).to_vector<float>(),
            (std::vector<float>{11, 23}));
}

TEST_F(TransferTest, ItemCopiesOneElement) {
  EXPECT_EQ(scalar_tensor(2.5, {.device = gpu}).item(), 2.5f);
  EXPECT_EQ(view::select(to_device(arange(5), gpu), 0, 3).item<std::int64_t>(), 3);
}

TEST_F(TransferTest, PrintingSaysWhereTheTensorIs) {
  std::ostringstream out;
  out << to_device(tensor({1., 2.}), gpu);
  EXPECT_EQ(out.str(), "tensor([1., 2.], device=cuda:0)");
}

TEST_F(TransferTest, FactoriesFillOnTheDevice) {
  const Options there{.dtype = DType::float64, .device = gpu};
  expect_close(zeros({3}, there), {0, 0, 0});
  expect_close(full({2}, 1.5, there), {1.5, 1.5});
  expect_close(eye(2, there), {1, 0, 0, 1});
  const DefaultDeviceGuard guard(gpu);
  EXPECT_EQ(tensor({1.}).device(), gpu);
  expect_close(arange(3), {0, 1, 2});
  expect_close(tensor({{1., 2.}, {3., 4.}}), {1, 2, 3, 4});
}

TEST_F(TransferTest, BetweenGpusCopiesFollowTheWorkOfBoth) {
  if (!has_two()) GTEST_SKIP() << "one GPU only";
  Tensor here = full({1 << 18}, 1, {.device = gpu});
  const Tensor there = full({1 << 18}, 0, {.device = other_gpu});
  for (int round = 0; round < 4; ++round) {
    const float value = static_cast<float>(round);
    here = full({1 << 18}, value, {.device = gpu});
    copy_bytes(there.raw_data(), other_gpu, here.raw_data(), gpu, std::size_t{1} << 20,
               Where::current());
    for (const float copied : there.to_vector<float>()) ASSERT_EQ(copied, value);
  }
}

// The source's later work is ordered after the copy, but not after the target's earlier work.
TEST_F(TransferTest, AFreshCopyWaitsForNoWorkOfItsTarget) {
  if (!has_two()) GTEST_SKIP() << "one GPU only";
  const Tensor x = full({1000}, 7, {.device = gpu});
  testing::Stall stall;
  const DefaultDeviceGuard guard(other_gpu);
  stall.begin();
  const Event over(current_stream(other_gpu));
  const Tensor y = to_device(x, other_gpu);
  kernels::fill_(x, 8);
  synchronize(gpu);
  EXPECT_FALSE(over.is_done());
  stall.end();
  expect_same_bits(to_host(y), full({1000}, 7, {.device = Device()}));
}

// The source is overwritten right after the copy, and both blocks are given back at once, where
// blocks are reused.
TEST_F(TransferTest, AFreshCopyIsOfWhatTheSourceHeldInItsOrder) {
  if (!has_two()) GTEST_SKIP() << "one GPU only";
  for (const bool caching : {false, true}) {
    set_cuda_caching(caching);
    testing::Stall stall;
    const DefaultDeviceGuard guard(gpu);
    stall.begin();
    const Event over(current_stream(gpu));
    Tensor sum = zeros({1000}, {.device = other_gpu});
    for (int round = 0; round < 5; ++round) {
      const Tensor x = full({1000}, round), y = to_device(x, other_gpu);
      kernels::fill_(x, -1);
      kernels::add_(sum, y);
    }
    EXPECT_FALSE(over.is_done());
    stall.end();
    EXPECT_EQ(sum.to_vector<float>(), std::vector<float>(1000, 0 + 1 + 2 + 3 + 4));
  }
}

TEST_F(TransferTest, AFreshCopyRunsBesideTheTargetsEarlierWork) {
  if (!has_two() || !is_cuda_simulated()) GTEST_SKIP() << "times are exact in simulation only";
  const Tensor x = ones({1 << 17}, {.device = gpu}), there = ones({1 << 17}, {.device = other_gpu});
  const auto time = [&](int num_fills, bool copies) {
    synchronize(gpu);
    synchronize(other_gpu);
    const Stream target = current_stream(other_gpu);
    const Event begin(target, /*timing=*/true);
    for (int i = 0; i < num_fills; ++i) kernels::fill_(there, i);
    const Tensor y = copies ? to_device(x, other_gpu) : there;
    const Event end(target, /*timing=*/true);
    end.synchronize();
    return Event::milliseconds(begin, end);
  };
  const double work = time(20, false), copy = time(0, true);
  EXPECT_GT(work, copy);
  EXPECT_LT(time(20, true), work + copy / 2);
}

TEST_F(TransferTest, PinnedMemoryIsCopiedWithoutWaiting) {
  const Tensor pinned = empty_pinned({1000});
  EXPECT_EQ(pinned.device(), Device());
  for (int i = 0; i < 1000; ++i) pinned.data<float>()[i] = static_cast<float>(i);
  const Tensor there = empty({1000}, {.device = gpu}), back = empty_pinned({1000});
  const Stream stream(gpu);
  {
    const StreamGuard guard(stream);
    copy_bytes_async(there.raw_data(), gpu, pinned.raw_data(), Device(), 4000, Where::current());
    copy_bytes_async(back.raw_data(), Device(), there.raw_data(), gpu, 4000, Where::current());
  }
  stream.synchronize();
  expect_same_bits(back, pinned);
}

TEST_F(TransferTest, PinnedMemoryMayBeOverwrittenAfterTheCopy) {
  const Tensor there = zeros({1 << 16}, {.device = gpu}), pinned = empty_pinned({1 << 16});
  for (int round = 0; round < 4; ++round) {
    kernels::fill_(pinned, round);
    const Tensor copy = to_device(pinned, gpu);
    copy_bytes(there.raw_data(), gpu, pinned.raw_data(), Device(), std::size_t{4} << 16,
               Where::current());
    kernels::fill_(pinned, -1);
    expect_same_bits(to_host(copy), full({1 << 16}, round));
    expect_same_bits(to_host(there), full({1 << 16}, round));
  }
}

TEST_F(TransferTest, ACopyFromPinnedMemoryDoesNotWaitForTheGpusWork) {
  const Tensor x = empty_pinned({1000});
  kernels::fill_(x, 3);
  const DefaultDeviceGuard guard(gpu);
  for (const bool caching : {false, true}) {
    set_cuda_caching(caching);
    testing::Stall stall;
    stall.begin();
    const Event over(current_stream(gpu));
    const Tensor there = to_device(x, gpu);
    EXPECT_FALSE(over.is_done());
    stall.end();
    kernels::add_(there, there);
    EXPECT_EQ(there.to_vector<float>(), std::vector<float>(1000, 6));
  }
}

TEST_F(TransferTest, PinKeepsValuesAndStrides) {
  const Tensor x = view::transpose(view::reshape(arange(24.f), {2, 3, 4}), 0, 2);
  const Tensor pinned = pin(x, gpu);
  EXPECT_FALSE(is_pinned(x.raw_data()));
  EXPECT_TRUE(is_pinned(pinned.raw_data()));
  EXPECT_EQ(pinned.strides(), x.strides());
  expect_same_bits(pinned, x);
  EXPECT_EQ(pin(pinned, gpu).raw_data(), pinned.raw_data());
  EXPECT_EQ(pin(zeros({3, 0}), gpu).shape(), (Shape{3, 0}));
  testing::expect_throws<DeviceError>([&] { pin(zeros({2}, {.device = gpu}), gpu); },
                                      "must be on a CPU, to be copied to a GPU; got cuda:0");
  testing::expect_throws<DeviceError>([&] { pin(x, Device()); }, "got cpu:0 and cpu:0");
}

TEST_F(TransferTest, FreedPinnedMemoryIsUsedAgain) {
  set_cuda_caching(true);
  const void* const first = empty_pinned({1000}).raw_data();
  EXPECT_TRUE(is_pinned(static_cast<const std::byte*>(first) + 4095));
  EXPECT_FALSE(is_pinned(static_cast<const std::byte*>(first) - 1));
  EXPECT_EQ(empty_pinned({900}).raw_data(), first);  // both take 4096 bytes
  EXPECT_NE(empty_pinned({2000}).raw_data(), first);
}

TEST_F(TransferTest, TheHostGetsNoPointerIntoAGpusMemory) {
  const Tensor there = full({3}, 2, {.device = gpu});
  testing::expect_throws<DeviceError>(
      [&] { there.data<float>(); },
      "data: the tensor must be in CPU memory, as after to_host(); got cuda");
  EXPECT_EQ(static_cast<void*>(there.device_data<float>()), there.raw_data());
  EXPECT_EQ(to_host(there).data<const float>()[2], 2);
}

}  // namespace
}  // namespace ringrad
