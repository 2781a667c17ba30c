#include "ringrad/kernels/pool/pool.h"

#include <cmath>
#include <limits>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/pool.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

struct Case {
  Shape shape;
  Pool2dOptions options;
};

const Case kCases[] = {
    {{2, 5, 6, 8}, {}},  // tiles the image
    {{3, 16, 4, 4}, {}},
    {{2, 3, 7, 5}, {}},  // leaves a remainder
    {{1, 4, 9, 9}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{2, 2, 8, 7}, {.kernel = {3, 2}, .stride = {1, 3}, .padding = {0, 1}}},
    {{1, 2, 5, 6}, {.kernel = {5, 6}, .stride = {1, 1}}},
    {{1, 1, 20, 20}, {.kernel = {17, 17}, .stride = {1, 2}}},  // over 256 places
    {{2, 3, 4, 4}, {.kernel = {1, 1}, .stride = {3, 3}}},      // gaps
    // Groups of 16 bytes on a GPU, of rows and of channels; more than one block of threads.
    {{2, 8, 10, 16}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{1, 9, 18, 32}, {}},
    // Threads that share a window; the channels do not fill their last block.
    {{1, 35, 11, 10}, {.kernel = {9, 8}, .stride = {1, 2}, .padding = {1, 4}}},
    // Numbers that need 64 bits.
    {{1, 2, 3, 4}, {.kernel = {2, 3}, .stride = {1 << 30, 1 << 30}, .padding = {1, 0}}},
};

reference::Pool reference_of(const Case& c) {
  Pool2dOptions o = c.options;
  for (const unsigned i : {0u, 1u})
    if (o.stride[i] == 0) o.stride[i] = o.kernel[i];
  const auto outputs = [&](int axis, unsigned i) {
    return (c.shape[axis] + 2 * o.padding[i] - o.kernel[i]) / o.stride[i] + 1;
  };
  return {.images = c.shape[0] * c.shape[1],
          .H = c.shape[2],
          .W = c.shape[3],
          .P = outputs(2, 0),
          .Q = outputs(3, 1),
          .kernel_h = o.kernel[0],
          .kernel_w = o.kernel[1],
          .stride_h = o.stride[0],
          .stride_w = o.stride[1],
          .padding_h = o.padding[0],
          .padding_w = o.padding[1],
          .count_padding = o.count_include_pad};
}

Shape output_shape(const Case& c) {
  const auto reference = reference_of(c);
  return {c.shape[0], c.shape[1], reference.P, reference.Q};
}

// body(case, x) for every case, dtype, team and order of memory.
template <class Body>
void for_each_input(Body body) {
  std::uint64_t seed = 0;
  for (const Case& c : kCases)
    for (const DType dtype : kFloats)
      for (const int threads : {1, 2}) {
        const Team team(threads);
        Random random(seed++);
        const Tensor x = random.tensor(c.shape, dtype);
        body(c, x, random);
        body(c, to_layout(x, Layout::channels_last), random);
        body(c, random.strided(x), random);
      }
}

TEST(MaxPoolTest, IsTheLargestOfEachWindow) {
  for_each_input([](const Case& c, const Tensor& x, Random&) {
    const auto expected = reference_of(c).max(x.to_vector<double>());
    const auto [y, places] = max_pool2d(x, c.options);
    expect_close(y, expected, 0);
    expect_close(max_pool2d_gather(x, places, c.options), expected, 0);
  });
}

TEST(MaxPoolTest, GradientGoesToTheWinners) {
  for_each_input([](const Case& c, const Tensor& x, Random& random) {
    const Tensor places = max_pool2d(x, c.options).places;
    const Tensor grad = random.tensor(output_shape(c), x.dtype());
    const auto expected =
        reference_of(c).max_backward(grad.to_vector<double>(), x.to_vector<double>());
    expect_close(max_pool2d_backward(grad, places, c.shape, c.options), expected);
    expect_close(
        max_pool2d_backward(random.strided(grad), random.strided(places), c.shape, c.options),
        expected);
  });
}

TEST(MaxPoolTest, NeedsOneBytePerOutputForSmallWindows) {
  const Tensor x = zeros({1, 1, 20, 20});
  EXPECT_EQ(max_pool2d(x, {.kernel = {16, 16}}).places.dtype(), DType::uint8);
  EXPECT_EQ(max_pool2d(x, {.kernel = {16, 17}}).places.dtype(), DType::int32);
}

TEST(MaxPoolTest, TakesTheFirstOfEqualsAndKeepsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Pool2dOptions& options : {Pool2dOptions{}, Pool2dOptions{.stride = {1, 1}}}) {
    EXPECT_EQ(max_pool2d(ones({1, 1, 2, 2}), options).places.item<int>(), 0);
    const float values[] = {1, nan, 1, 1};
    const auto [y, places] = max_pool2d(from_values<float>(values, {1, 1, 2, 2}), options);
    EXPECT_TRUE(std::isnan(y.item()));
    EXPECT_EQ(places.item<int>(), 1);
  }
}

TEST(MaxPoolTest, IsMinusInfinityAtTheFirstPlaceIfNothingIsLarger) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t side : {2, 3, 4}) {
    const Pool2dOptions options{.kernel = {side, side}, .stride = {8, 8}, .padding = {1, 1}};
    const auto [y, places] = max_pool2d(full({1, 1, 4, 4}, -infinity), options);
    EXPECT_EQ(y.item(), -infinity);
    EXPECT_EQ(places.item<int>(), side + 1) << "row 1, column 1 of the window";
  }
}

TEST(AvgPoolTest, IsTheMeanOfEachWindow) {
  for_each_input([](Case c, const Tensor& x, Random&) {
    for (const bool count : {true, false}) {
      c.options.count_include_pad = count;
      expect_close(avg_pool2d(x, c.options), reference_of(c).average(x.to_vector<double>()), 128);
    }
  });
}

TEST(AvgPoolTest, SpreadsTheGradientEvenly) {
  for_each_input([](Case c, const Tensor& x, Random& random) {
    const Tensor grad = random.strided(random.tensor(output_shape(c), x.dtype()));
    for (const bool count : {true, false}) {
      c.options.count_include_pad = count;
      expect_close(avg_pool2d_backward(grad, c.shape, c.options),
                   reference_of(c).average_backward(grad.to_vector<double>()), 128);
    }
  });
}

TEST(AdaptiveAvgPoolTest, CutsTheImageIntoEqualParts) {
  Random random(1);
  const std::array<std::int64_t, 2> sizes[] = {{1, 1}, {2, 3}, {7, 5}, {9, 4}};
  for (const auto& size : sizes)
    for (const DType dtype : kFloats) {
      const Tensor x = random.tensor({2, 3, 7, 5}, dtype);
      const reference::Pool reference{
          .images = 6, .H = 7, .W = 5, .P = size[0], .Q = size[1], .adaptive = true};
      const auto expected = reference.average(x.to_vector<double>());
      expect_close(adaptive_avg_pool2d(x, size), expected, 64);
      expect_close(adaptive_avg_pool2d(to_layout(x, Layout::channels_last), size), expected, 64);
      const Tensor grad = random.tensor({2, 3, size[0], size[1]}, dtype);
      expect_close(adaptive_avg_pool2d_backward(grad, x.shape()),
                   reference.average_backward(grad.to_vector<double>()), 64);
    }
}

TEST(AdaptiveAvgPoolTest, TakesLargeImages) {
  Random random(2);
  const std::array<std::int64_t, 2> size = {1, 2};
  const reference::Pool reference{.images = 68, .H = 12, .W = 14, .P = 1, .Q = 2, .adaptive = true};
  for (const DType dtype : kFloats) {
    const Tensor x = random.tensor({2, 34, 12, 14}, dtype);
    const auto expected = reference.average(x.to_vector<double>());
    expect_close(adaptive_avg_pool2d(x, size), expected, 64);
    expect_close(adaptive_avg_pool2d(to_layout(x, Layout::channels_last), size), expected, 64);
  }
}

TEST(AdaptiveAvgPoolTest, ToTheSameSizeChangesNothing) {
  const Tensor x = Random(3).tensor({1, 1, 33'000, 1});  // extent * outputs exceeds 2^30
  const Tensor y = adaptive_avg_pool2d(x, {33'000, 1});
  expect_same_bits(y, x);
  expect_same_bits(adaptive_avg_pool2d_backward(y, x.shape()), x);
}

TEST(PoolTest, KeepsTheOrderOfMemory) {
  const Tensor x = zeros({2, 3, 8, 8}), nhwc = to_layout(x, Layout::channels_last);
  EXPECT_TRUE(max_pool2d(x, {}).output.is_contiguous());
  EXPECT_TRUE(max_pool2d(nhwc, {}).output.is_channels_last());
  EXPECT_TRUE(avg_pool2d(x, {}).is_contiguous());
  EXPECT_TRUE(avg_pool2d(nhwc, {}).is_channels_last());
}

TEST(PoolTest, TakesEmptyBatches) {
  EXPECT_EQ(max_pool2d(zeros({0, 3, 8, 8}), {}).output.shape(), (Shape{0, 3, 4, 4}));
  EXPECT_EQ(avg_pool2d(zeros({2, 0, 8, 8}), {}).shape(), (Shape{2, 0, 4, 4}));
}

TEST(PoolTest, ThrowsForBadShapesAndOptions) {
  const Tensor x = zeros({1, 2, 4, 4});
  expect_throws<ShapeError>(
      [&] {
        max_pool2d(zeros({2, 4, 4}), {});
      },
      "max_pool2d: x must be (B, C, H, W); got shape (2, 4, 4)");
  expect_throws<ShapeError>(
      [&] {
        avg_pool2d(x, {.kernel = {5, 5}});
      },
      "got an extent of 4 for a window of 5");
  expect_throws<ShapeError>([&] { max_pool2d(zeros({1, 2, 0, 4}), {}); }, "must have pixels");
  expect_throws<ValueError>([&] { max_pool2d(x, {.stride = {-1, 1}}); }, "stride -1");
  expect_throws<ValueError>([&] { avg_pool2d(x, {.padding = {2, 0}}); }, "padding 2");
  expect_throws<ValueError>(
      [&] {
        adaptive_avg_pool2d(x, {0, 1});
      },
      "the output size must be positive");
  expect_throws<ShapeError>([&] { avg_pool2d_backward(x, x.shape(), {}); },
                            "the gradient must have the output's shape (1, 2, 2, 2)");
  expect_throws<DTypeError>(
      [&] {
        max_pool2d(zeros({1, 1, 4, 4}, {.dtype = DType::int32}), {});
      },
      "max_pool2d: needs a floating dtype");
  expect_throws<DTypeError>(
      [&] {
        max_pool2d_backward(zeros({1, 2, 2, 2}), zeros({1, 2, 2, 2}), x.shape(), {});
      },
      "places must be uint8; got float32");
}

}  // namespace
}  // namespace ringrad::kernels
