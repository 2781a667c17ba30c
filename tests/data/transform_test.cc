#include "ringrad/data/transform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;
using Indices = std::vector<std::int64_t>;

Indices numbers_below(std::int64_t n) {
  Indices numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Tensor apply_one(const Transform& transform, const Tensor& input, const Indices& indices,
                 std::int64_t epoch = 0, std::uint64_t seed = 0, Where where = Where::current()) {
  return apply(std::vector{transform}, input, {indices, epoch, seed}, where);
}

Tensor apply_one(const Transform& transform, const Tensor& input, Where where = Where::current()) {
  return apply_one(transform, input, numbers_below(input.shape()[0]), 0, 0, where);
}

// The sample of a batch at `position`, as a batch of one.
Tensor one_sample(const Tensor& batch, std::int64_t position) {
  return view::slice(batch, 0, position, position + 1);
}

// Element (b, c, h, w).
double at(const Tensor& x, std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t w) {
  return view::select(view::select(view::select(view::select(x, 0, b), 0, c), 0, h), 0, w)
      .item<double>();
}

// The value of a padded image: 0 outside.
double padded_at(const Tensor& x, std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t w) {
  const bool inside = h >= 0 && h < x.shape()[2] && w >= 0 && w < x.shape()[3];
  return inside ? at(x, b, c, h, w) : 0;
}

// -- Normalize ------------------------------------------------------------------------------------

TEST(NormalizeTest, FollowsItsFormulaPerChannel) {
  Random random(1);
  const std::vector<float> mean = {0.25f, 0.5f, 0.125f}, deviation = {0.5f, 2.0f, 0.3f};
  for (const DType dtype : {DType::uint8, DType::float32}) {
    const Tensor x = random.tensor({4, 3, 5, 7}, dtype);
    const Tensor y = apply_one(normalize(mean, deviation), x);
    EXPECT_EQ(y.dtype(), DType::float32);
    const auto values = x.to_vector<double>();
    std::vector<double> expected(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t c = i / 35 % 3;
      const double unit = dtype == DType::uint8 ? 255 : 1;
      expected[i] = (values[i] / unit - double{mean[c]}) / double{deviation[c]};
    }
    expect_close(y, expected);
  }
}

TEST(NormalizeTest, OneMeanServesAllChannels) {
  const Tensor x = Random(2).tensor({2, 3, 4});
  expect_same_bits(apply_one(normalize({0.5f}, {2.0f}), x),
                   apply_one(normalize({0.5f, 0.5f, 0.5f}, {2.0f, 2.0f, 2.0f}), x));
}

TEST(NormalizeTest, IsExactForALargeMeanAndATinyDeviation) {
  const Tensor far = tensor({{{999999.5, 1e6, 1000000.5}}});
  expect_close(apply_one(normalize({1e6f}, {0.01f}), far), {-50, 0, 50});
  EXPECT_EQ(apply_one(normalize({0.f}, {1e-40f}), zeros({1, 1})).item(), 0);
}

TEST(NormalizeTest, TakesEmptyBatches) {
  EXPECT_EQ(apply_one(normalize({0.f}, {1.f}), zeros({0, 3, 2})).shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(apply_one(normalize({0.f}, {1.f}), zeros({2, 0, 2})).shape(), (Shape{2, 0, 2}));
}

TEST(NormalizeTest, ThrowsForInvalidMeansAndDeviations) {
  expect_throws<ValueError>([] { normalize({}, {}); }, "at least one; got 0 and 0");
  expect_throws<ValueError>([] { normalize({1.f, 2.f}, {1.f}); }, "got 2 and 1");
  expect_throws<ValueError>([] { normalize({1.f}, {0.f}); }, "got mean 1 and deviation 0");
  expect_throws<ValueError>([] { normalize({1.f}, {-1.f}); }, "got mean 1 and deviation -1");
  expect_throws<ValueError>([] { normalize({std::nanf("")}, {1.f}); }, "for channel 0");
}

TEST(NormalizeTest, ThrowsForABatchThatDoesNotFit) {
  const Transform two = normalize({0.f, 0.f}, {1.f, 1.f});
  expect_throws<ShapeError>(
      [&] {
        apply_one(two, zeros({4, 3, 2}));
      },
      "got 2 means and a batch of shape (4, 3, 2)");
  expect_throws<ShapeError>([&] { apply_one(two, zeros({4})); }, "got shape (4,)");
  expect_throws<ShapeError>(
      [&] {
        apply_one(two, view::transpose(zeros({2, 4}), 0, 1));
      },
      "must be (B, C, ...) and contiguous");
  expect_throws<DTypeError>(
      [&] {
        apply_one(two, zeros({4, 2}, {.dtype = DType::int64}));
      },
      "normalize: needs uint8 or float32; got int64");
}

// -- Random crop ----------------------------------------------------------------------------------

// True if y's sample b is the window of x's padded sample b that begins at (top, left).
bool is_window(const Tensor& y, const Tensor& x, std::int64_t b, std::int64_t top,
               std::int64_t left) {
  for (std::int64_t c = 0; c < y.shape()[1]; ++c)
    for (std::int64_t h = 0; h < y.shape()[2]; ++h)
      for (std::int64_t w = 0; w < y.shape()[3]; ++w)
        if (at(y, b, c, h, w) != padded_at(x, b, c, top + h, left + w)) return false;
  return true;
}

// Pixels differ and are not 0, so that every window is distinguishable from every other.
Tensor distinct_pixels(const Shape& shape, DType dtype) {
  const Tensor x = empty(shape, {.dtype = dtype});
  dispatch_dtype(dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < x.numel(); ++i) x.data<T>()[i] = static_cast<T>(i % 250 + 1);
  });
  return x;
}

TEST(RandomCropTest, IsAWindowOfThePaddedImageInAnyDType) {
  for (int d = 0; d < kNumDTypes; ++d) {
    const DType dtype = static_cast<DType>(d);
    if (dtype == DType::bool_) continue;  // its pixels are not distinguishable
    const Tensor x = distinct_pixels({6, 2, 4, 5}, dtype);
    for (const CropSize size : {CropSize{4, 5}, CropSize{3, 3}, CropSize{8, 9}, CropSize{3, 8}}) {
      const Tensor y = apply_one(random_crop(size, 2), x);
      ASSERT_EQ(y.shape(), (Shape{6, 2, size.height, size.width}));
      for (std::int64_t b = 0; b < 6; ++b) {
        int matches = 0;
        for (std::int64_t top = -2; top <= 6 - size.height; ++top)
          for (std::int64_t left = -2; left <= 7 - size.width; ++left)
            matches += is_window(y, x, b, top, left);
        EXPECT_EQ(matches, 1) << dtype << ' ' << y.shape() << ", sample " << b;
      }
    }
  }
}

TEST(RandomCropTest, EveryPlaceIsEquallyLikely) {
  constexpr std::int64_t kSamples = 9000;
  const Tensor x = full({kSamples, 1, 1, 1}, 1);
  // The image's only pixel may lie anywhere in the 3 x 3 window.
  const Tensor y = apply_one(random_crop({3, 3}, 2), x);
  std::vector<int> counts(9);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    counts[static_cast<std::size_t>(i % 9)] += y.data<float>()[i] == 1;
  for (const int count : counts) EXPECT_NEAR(count, 1000, 5 * 30);  // a binomial deviation is 29.8
}

TEST(RandomCropTest, WithoutPaddingTheWholeImageIsTheOnlyWindow) {
  const Tensor x = Random(3).tensor({3, 2, 4, 5});
  expect_same_bits(apply_one(random_crop({4, 5}), x), x);
}

TEST(RandomCropTest, ThrowsForArgumentsThatDoNotFit) {
  expect_throws<ValueError>([] { random_crop({0, 4}); }, "window must be positive; got (0, 4)");
  expect_throws<ValueError>([] { random_crop({4, 4}, -1); }, "got -1");
  expect_throws<ValueError>(
      [] {
        random_crop({4, 4}, std::int64_t{1} << 62);
      },
      "padding must be in");
  expect_throws<ShapeError>(
      [] {
        apply_one(random_crop({9, 4}, 2), zeros({1, 1, 4, 4}));
      },
      "got a window of (9, 4) and a batch of shape (1, 1, 4, 4)");
  expect_throws<ShapeError>(
      [] {
        apply_one(random_crop({4, std::numeric_limits<std::int64_t>::max()}, 2),
                  zeros({1, 1, 4, 4}));
      },
      "the window must fit");
  expect_throws<ShapeError>(
      [] {
        apply_one(random_crop({2, 2}), zeros({4, 4}));
      },
      "must be (B, C, H, W) and contiguous; got shape (4, 4)");
}

// -- Random flip ----------------------------------------------------------------------------------

TEST(RandomHorizontalFlipTest, MirrorsWholeSamplesInAnyDType) {
  const Transform always = random_horizontal_flip(1), never = random_horizontal_flip(0);
  for (int d = 0; d < kNumDTypes; ++d) {
    const Tensor x = Random(4).tensor({3, 2, 4, 5}, static_cast<DType>(d));
    const Tensor y = apply_one(always, x);
    for (std::int64_t w = 0; w < 5; ++w)
      expect_same_bits(view::select(y, 3, w), view::select(x, 3, 4 - w));
    expect_same_bits(apply_one(never, x), x);
  }
}

TEST(RandomHorizontalFlipTest, FlipsWithItsProbability) {
  const Tensor x = zeros({10'000, 2});
  for (std::int64_t b = 0; b < 10'000; ++b) x.data<float>()[2 * b] = 1;
  const auto flipped = apply_one(random_horizontal_flip(0.3), x).to_vector<double>();
  double count = 0;
  for (std::size_t i = 1; i < flipped.size(); i += 2) count += flipped[i];
  EXPECT_NEAR(count, 3000, 5 * 46);  // a binomial deviation is 45.8
}

TEST(RandomHorizontalFlipTest, ThrowsForArgumentsThatDoNotFit) {
  for (const double probability : {-0.1, 1.1, std::nan("")})
    expect_throws<ValueError>([&] { random_horizontal_flip(probability); },
                              "must be in [0, 1]; got");
  expect_throws<ShapeError>([] { apply_one(random_horizontal_flip(), zeros({4})); },
                            "must be (B, ..., W) and contiguous; got shape (4,)");
}

// -- All random transforms ------------------------------------------------------------------------

const std::vector<Transform>& augmentation() {
  static const std::vector<Transform> transforms = {random_crop({6, 6}, 2),
                                                    random_horizontal_flip()};
  return transforms;
}

TEST(TransformTest, ASampleLooksAlikeInWhateverBatchItIs) {
  const Tensor x = distinct_pixels({20, 1, 6, 6}, DType::float32);
  const Indices all = numbers_below(20);
  const Tensor whole = apply(augmentation(), x, {all, 3, 9});
  for (std::int64_t i = 0; i < 20; ++i) {
    const Indices own = {i};
    expect_same_bits(apply(augmentation(), one_sample(x, i), {own, 3, 9}), one_sample(whole, i));
  }
}

TEST(TransformTest, SeedEpochAndIndexEachChangeTheDraws) {
  const Tensor x = distinct_pixels({20, 1, 6, 6}, DType::float32);
  const Indices all = numbers_below(20);
  Indices others = all;
  for (auto& index : others) index += 20;
  const auto base = apply(augmentation(), x, {all, 3, 9}).to_vector<float>();
  EXPECT_NE(apply(augmentation(), x, {all, 3, 8}).to_vector<float>(), base);
  EXPECT_NE(apply(augmentation(), x, {all, 4, 9}).to_vector<float>(), base);
  EXPECT_NE(apply(augmentation(), x, {others, 3, 9}).to_vector<float>(), base);
}

// Two coins must not always agree: flipping twice would then be no flip at all.
TEST(TransformTest, EqualTransformsInOneListDrawDifferently) {
  const Tensor x = distinct_pixels({200, 2}, DType::float32);
  const Indices all = numbers_below(200);
  const std::vector<Transform> twice(2, random_horizontal_flip());
  const Tensor y = apply(twice, x, {all, 0, 0});
  int flipped = 0;
  for (std::int64_t b = 0; b < 200; ++b)
    flipped += y.data<float>()[2 * b] != x.data<float>()[2 * b];
  EXPECT_NEAR(flipped, 100, 5 * 7.1);
}

TEST(TransformTest, LeavesItsInputAsItIs) {
  const Tensor x = distinct_pixels({4, 1, 6, 6}, DType::float32);
  const Tensor before = testing::contiguous_copy(x);
  const Indices all = numbers_below(4);
  for (const auto& transform : {augmentation()[0], augmentation()[1], normalize({1.f}, {2.f})})
    apply_one(transform, x);
  expect_same_bits(x, before);
}

TEST(TransformTest, ThrowsUnlessThereIsAnIndexPerSample) {
  expect_throws<ShapeError>(
      [] {
        apply_one(random_horizontal_flip(), zeros({4, 2}), Indices{1});
      },
      "got 1 indices and a batch of shape (4, 2)");
}

TEST(TransformTest, ATransformMustKeepTheNumberOfSamples) {
  const Indices indices{0, 1, 2, 3};
  const Tensor batch = zeros({4, 1, 2, 2}, {.dtype = DType::uint8});
  const Transform first = [](const Tensor& x, const SampleKeys&, Where) {
    return view::slice(x, 0, 0, 1);
  };
  const std::vector<Transform> transforms{first, random_horizontal_flip()};
  expect_throws<ShapeError>([&] { apply(transforms, batch, {indices}); }, "one index per sample");
  expect_throws<ShapeError>(
      [&] {
        random_crop({2, 2}, 1)(view::slice(batch, 0, 0, 1), {indices}, Where::current());
      },
      "one index per sample");
}

}  // namespace
}  // namespace ringrad
