#include "ringrad/kernels/copy/copy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using kernels::cast;
using kernels::copy_;
using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using testing::Team;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                             DType::int32,   DType::int64,   DType::uint8,   DType::bool_};

// x's elements in a contiguous tensor of the given dtype, converted by core.
Tensor converted(const Tensor& x, DType dtype) {
  const Tensor result = empty(x.shape(), {.dtype = dtype, .device = testing::host_device()});
  dispatch_dtype(dtype, [&]<class T>() {
    const auto values = x.to_vector<T>();
    std::copy(values.begin(), values.end(), result.data<T>());
  });
  return to_device(result, x.device());
}

// Numbers that every dtype can hold.
Tensor small_numbers(Random& random, const Shape& shape, DType dtype) {
  return converted(random.tensor(shape, DType::uint8), dtype);
}

TEST(CopyTest, EveryDTypeConvertsToEveryOther) {
  Random random(1);
  for (const DType from : kDTypes)
    for (const DType to : kDTypes)
      for (const std::int64_t n : {1, 7, 300}) {
        const Tensor x = small_numbers(random, {n}, from);
        expect_same_bits(cast(x, to), converted(x, to));
        expect_same_bits(cast(random.strided(x), to), converted(x, to));
      }
}

TEST(CopyTest, AnyViewIsReadInRowMajorOrder) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const DType dtype = kDTypes[random.integer(0, kNumDTypes)];
    const Tensor x = random.view_of(random.tensor(random.shape(5, 7), dtype));
    const Tensor y = kernels::contiguous(x);
    EXPECT_TRUE(y.is_contiguous());
    expect_same_bits(y, converted(x, dtype));
    expect_same_bits(kernels::clone(x), converted(x, dtype));
  }
}

TEST(CopyTest, ViewsOfOneDTypeAreWrittenFromViewsOfAnother) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const DType from = kDTypes[random.integer(0, kNumDTypes)];
    const DType to = kDTypes[random.integer(0, kNumDTypes)];
    const Tensor x = random.view_of(small_numbers(random, random.shape(5, 7), from));
    const Tensor y = random.strided(zeros(x.shape(), {.dtype = to}));
    copy_(y, x);
    expect_same_bits(y, converted(x, to));
  }
}

TEST(CopyTest, WritesNothingOutsideOfTheDestination) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    const Tensor whole = random.tensor({9, 8, 7});
    const Tensor before = kernels::clone(whole);
    const auto part = [](const Tensor& x) {
      return view::transpose(view::slice(view::slice(x, 0, 2, 7, 2), 2, 1, 6), 0, 1);
    };
    copy_(part(whole), random.tensor(part(whole).shape()));
    copy_(part(whole), part(before));
    expect_same_bits(whole, before);
  }
}

TEST(CopyTest, BroadcastsTheSource) {
  const Tensor y = zeros({2, 3, 2});
  copy_(y, view::reshape(tensor({1., 2., 3.}), {3, 1}));
  expect_close(y, {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3});
  copy_(y, scalar_tensor(5));
  expect_close(y, {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5});
}

// Extents below, at and above the sides of registers and tiles.
TEST(CopyTest, TransposesMatricesOfAnySize) {
  Random random(2);
  for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32, DType::float64})
    for (const std::int64_t rows : {1, 2, 5, 16, 31, 64, 65, 130})
      for (const std::int64_t columns : {1, 3, 4, 17, 32, 63, 64, 129}) {
        const Tensor x = random.tensor({3, rows, columns}, dtype);
        const Tensor y = view::transpose(x, 1, 2);
        expect_same_bits(kernels::contiguous(y), converted(y, dtype));
      }
}

TEST(CopyTest, LargeTransposesGoPastTheCachesUnharmed) {
  Random random(3);
  for (const int threads : {1, 2}) {
    const Team team(threads);
    // Rows of the result start at multiples of 64 bytes, of 16 bytes, and of 4 bytes.
    for (const std::int64_t rows : {1040, 1044, 1041}) {
      const Tensor x = random.tensor({rows, 1030});
      const Tensor y = view::transpose(x, 0, 1);
      expect_same_bits(kernels::contiguous(y), converted(y, DType::float32));
    }
  }
}

TEST(CopyTest, LongRowsAreSharedByThreads) {
  Random random(4);
  const Team team(2);
  const Tensor x = random.tensor({3, 100'000});
  const Tensor y = view::slice(x, 1, 1, 99'999);
  expect_same_bits(kernels::contiguous(y), converted(y, DType::float32));
  expect_same_bits(cast(y, DType::float64), converted(y, DType::float64));
}

TEST(CopyTest, LayoutsGoThereAndBack) {
  Random random(5);
  for (const std::int64_t channels : {1, 3, 16, 70}) {
    const Tensor x = random.tensor({2, channels, 9, 11});
    const Tensor y = kernels::to_layout(x, Layout::channels_last);
    EXPECT_TRUE(y.is_channels_last());
    expect_same_bits(y, x);
    expect_same_bits(kernels::to_layout(y, Layout::contiguous), x);
  }
}

TEST(CopyTest, WhatNeedsNoCopyIsReturnedItself) {
  const Tensor x = ones({2, 3, 4, 5});
  EXPECT_TRUE(kernels::contiguous(x).is(x));
  EXPECT_TRUE(cast(x, DType::float32).is(x));
  const Tensor y = kernels::to_layout(x, Layout::channels_last);
  EXPECT_TRUE(kernels::to_layout(y, Layout::channels_last).is(y));
  EXPECT_FALSE(kernels::clone(x).is(x));
}

TEST(CopyTest, CastsAndClonesKeepTheOrderOfAxes) {
  const Tensor x = ones({2, 3, 4, 5}, {.layout = Layout::channels_last});
  EXPECT_TRUE(cast(x, DType::float64).is_channels_last());
  EXPECT_TRUE(kernels::clone(x).is_channels_last());
}

TEST(CopyTest, OverlappingTensorsAreReadBeforeTheyAreWritten) {
  const Tensor x = cast(arange(10), DType::float32);
  copy_(view::slice(x, 0, 2, 10), view::slice(x, 0, 0, 8));
  expect_close(x, {0, 1, 0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor square = tensor({{1., 2.}, {3., 4.}});
  copy_(square, view::transpose(square, 0, 1));
  expect_close(square, {1, 3, 2, 4});
}

TEST(CopyTest, FloatsAreTruncatedToIntegers) {
  const Tensor x = tensor({-1.9f, -0.5f, 0.5f, 1.9f, 255.7f});
  expect_close(cast(x, DType::int32), {-1, 0, 0, 1, 255});
  expect_close(cast(x, DType::int64), {-1, 0, 0, 1, 255});
  expect_close(cast(x, DType::uint8), {255, 0, 0, 1, 255});
}

TEST(CopyTest, OnlyZeroIsFalse) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_close(cast(tensor({0.f, -0.f, 0.25f, nan, -3.f}), DType::bool_), {0, 0, 1, 1, 1});
}

TEST(CopyTest, RoundsToTheNearestHalf) {
  expect_close(cast(tensor({1.f + 0x1p-9f, 1.f + 0x1.8p-8f}), DType::bfloat16), {1, 1 + 0x1p-7}, 0);
  expect_close(cast(tensor({65519.f, 65520.f}), DType::float16),
               {65504, std::numeric_limits<double>::infinity()}, 0);
}

TEST(CopyTest, CountsAsAChangeOfTheDestination) {
  const Tensor x = zeros({3});
  const std::uint32_t before = x.version();
  copy_(x, ones({3}));
  EXPECT_GT(x.version(), before);
}

TEST(CopyTest, EmptyTensorsAreFine) {
  const Tensor x = empty({0, 3});
  copy_(x, ones({3}));
  EXPECT_EQ(cast(view::transpose(x, 0, 1), DType::int32).shape(), (Shape{3, 0}));
}

TEST(CopyTest, ThrowsWhenTheSourceDoesNotBroadcast) {
  expect_throws<ShapeError>(
      [] {
        copy_(empty({2, 3}), empty({2}));
      },
      "copy_: the source must broadcast to the destination; got (2,) and (2, 3)");
  expect_throws<ShapeError>([] { copy_(empty({3}), empty({2, 3})); }, "got (2, 3) and (3,)");
}

TEST(CopyTest, ThrowsWhenElementsOfTheDestinationCoincide) {
  expect_throws<ValueError>(
      [] {
        copy_(view::expand(zeros({3, 1}), {3, 4}), ones({3, 4}));
      },
      "copy_: each element of the tensor written to must have its own place in memory; got shape "
      "(3, 4)");
}

TEST(CopyTest, ThrowsForChannelsLastWithoutFourAxes) {
  expect_throws<ShapeError>(
      [] {
        kernels::to_layout(ones({2, 3}), Layout::channels_last);
      },
      "to_layout: channels_last needs 4 axes (B, C, H, W); got (2, 3)");
}

}  // namespace
}  // namespace ringrad
