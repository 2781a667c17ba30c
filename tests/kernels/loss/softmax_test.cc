#include "ringrad/kernels/loss/softmax.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/softmax.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

// Shapes and axes for each way the kernel lays out its work: few long rows, many short ones, rows
// that lie side by side, and remainders of 16 in all of them.
struct Case {
  Shape shape;
  int axis;
};
const Case kCases[] = {{{3, 200}, 1},     {{2, 64}, 1},      {{1, 1000}, 1},  {{40, 7}, 1},
                       {{16, 10}, 1},     {{5, 63}, 1},      {{4, 5, 32}, 1}, {{3, 4, 37}, 1},
                       {{2, 70, 3}, 1},   {{9, 20}, 0},      {{100, 33}, 0},  {{2, 3, 4, 5}, 2},
                       {{2, 3, 4, 5}, 1}, {{6, 1, 5}, 1},    {{7}, 0},        {{90}, 0},
                       {{1, 1}, 0},       {{2, 3, 4, 5}, 0}, {{70, 61}, 1}};

// On a GPU these are rows of a warp, and of blocks that keep them in registers and that do not.
constexpr std::int64_t kLongRows[] = {509, 520, 2045, 2050, 8185, 8200};

using RowFunction = std::function<std::vector<double>(const std::vector<double>& row)>;
using RowPairFunction =
    std::function<std::vector<double>(const std::vector<double>& a, const std::vector<double>& b)>;

// The function applied to every row along the axis, as a float64 tensor.
Tensor along(const Tensor& a, const Tensor& b, int axis, const RowPairFunction& function) {
  const std::int64_t size = a.shape()[axis];
  const Tensor rows_a = view::transpose(a, axis, -1), rows_b = view::transpose(b, axis, -1);
  const std::vector<double> all_a = rows_a.to_vector<double>(), all_b = rows_b.to_vector<double>();
  std::vector<double> result;
  for (auto at = all_a.begin(), at_b = all_b.begin(); at != all_a.end(); at += size, at_b += size)
    for (const double value : function({at, at + size}, {at_b, at_b + size}))
      result.push_back(value);
  return view::transpose(from_values(std::span<const double>(result), rows_a.shape()), axis, -1);
}

Tensor along(const Tensor& x, int axis, const RowFunction& function) {
  return along(x, x, axis, [&](const auto& row, const auto&) { return function(row); });
}

// At least one axis.
Shape shape_with_axes(Random& random, std::int64_t largest) {
  Shape shape = random.shape(3, largest);
  shape.insert(0, random.integer(1, largest + 1));
  return shape;
}

double slack(const Case& c) { return 32 * std::sqrt(static_cast<double>(c.shape[c.axis])); }

TEST(SoftmaxTest, RowsSumToOne) {
  Random random(1);
  for (const Case& c : kCases) {
    const Tensor y = softmax(random.tensor(c.shape, -30, 30), c.axis);
    const Tensor sums = along(y, c.axis, [](const std::vector<double>& row) {
      double sum = 0;
      for (const double value : row) sum += value;
      return std::vector<double>(row.size(), sum);
    });
    expect_close(sums, ones(c.shape), 1e10);  // float64: 1e10 epsilons are 2e-6
  }
}

TEST(SoftmaxTest, DoesNotChangeWhenScoresShift) {
  Random random(2);
  const Tensor x = tensor({{1, 2, 3, 4.5f}, {-1, 0, 0, 8}});
  const Tensor shifted = tensor({{1025, 1026, 1027, 1028.5f}, {-65537, -65536, -65536, -65528}});
  expect_same_bits(softmax(x, 1), softmax(shifted, 1));
  expect_same_bits(log_softmax(x, 1), log_softmax(shifted, 1));
}

TEST(SoftmaxTest, StaysFiniteForLargeScores) {
  const Tensor x = tensor({1e30f, -1e30f, 1e30f});
  expect_close(softmax(x, 0), {0.5, 0, 0.5});
  expect_close(log_softmax(tensor({0.f, -1000.f}), 0), {0, -1000});
}

TEST(SoftmaxTest, GivesZeroToScoresOfMinusInfinity) {
  const Tensor x = tensor({0.f, -kInfinity, 0.f});
  expect_close(softmax(x, 0), {0.5, 0, 0.5});
  expect_close(log_softmax(x, 0), {std::log(0.5), -kInfinity, std::log(0.5)});
}

TEST(SoftmaxTest, KeepsNanInItsRow) {
  const Tensor x = tensor({{0, kNan, 1}, {2, 2, 2}});
  for (const double value : view::select(softmax(x, 1), 0, 0).to_vector<double>())
    EXPECT_TRUE(std::isnan(value));
  expect_close(view::select(softmax(x, 1), 0, 1), {1. / 3, 1. / 3, 1. / 3});
}

TEST(SoftmaxTest, AgreesWithReference) {
  Random random(3);
  for (const Case& c : kCases)
    for (const DType dtype : kFloats) {
      SCOPED_TRACE(concat(c.shape, " axis ", c.axis, ' ', dtype));
      const Tensor x = random.tensor(c.shape, -4, 4, dtype);
      const Tensor y = softmax(x, c.axis), log_y = log_softmax(x, c.axis);
      EXPECT_EQ(y.dtype(), dtype);
      expect_close(y, along(x, c.axis, reference::softmax), slack(c));
      expect_close(log_y, along(x, c.axis, reference::log_softmax), slack(c));
    }
}

TEST(SoftmaxTest, BackwardAgreesWithReference) {
  Random random(4);
  for (const Case& c : kCases)
    for (const DType dtype : kFloats) {
      SCOPED_TRACE(concat(c.shape, " axis ", c.axis, ' ', dtype));
      const Tensor grad = random.tensor(c.shape, dtype);
      const Tensor y = softmax(random.tensor(c.shape, dtype), c.axis);
      const Tensor log_y = log_softmax(random.tensor(c.shape, dtype), c.axis);
      expect_close(softmax_backward(grad, y, c.axis),
                   along(grad, y, c.axis, reference::softmax_backward), slack(c));
      expect_close(log_softmax_backward(grad, log_y, c.axis),
                   along(grad, log_y, c.axis, reference::log_softmax_backward), slack(c));
    }
}

TEST(SoftmaxTest, LongRowsAgreeWithReference) {
  Random random(6);
  for (const std::int64_t size : kLongRows)
    for (const DType dtype : kFloats) {
      SCOPED_TRACE(concat(size, ' ', dtype));
      const Tensor x = random.tensor({3, size}, -4, 4, dtype),
                   grad = random.tensor({3, size}, dtype);
      const Tensor y = softmax(x, 1), log_y = log_softmax(x, 1);
      expect_close(y, along(x, 1, reference::softmax), 64);
      expect_close(log_y, along(x, 1, reference::log_softmax), 64);
      // The time of the reference's backward grows with the square of the size.
      expect_close(softmax_backward(grad, y, 1),
                   along(grad, y, 1, [](const auto& g, const auto& p) {
                     const double mean = std::inner_product(g.begin(), g.end(), p.begin(), 0.);
                     std::vector<double> result;
                     for (std::size_t i = 0; i < g.size(); ++i)
                       result.push_back(p[i] * (g[i] - mean));
                     return result;
                   }));
      expect_close(log_softmax_backward(grad, log_y, 1),
                   along(grad, log_y, 1, [](const auto& g, const auto& log_p) {
                     const double sum = std::accumulate(g.begin(), g.end(), 0.);
                     std::vector<double> result;
                     for (std::size_t i = 0; i < g.size(); ++i)
                       result.push_back(g[i] - std::exp(log_p[i]) * sum);
                     return result;
                   }));
    }
}

TEST(SoftmaxTest, DoesNotDependOnStrides) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const Tensor x = random.tensor(shape_with_axes(random, 12));
    const std::int64_t axis = random.integer(-x.dims(), x.dims());
    const Tensor y = softmax(x, axis), log_y = log_softmax(x, axis);
    expect_close(softmax(random.strided(x), axis), y);
    expect_close(log_softmax(random.strided(x), axis), log_y);
    const Tensor grad = random.tensor(x.shape());
    expect_close(softmax_backward(random.strided(grad), random.strided(y), axis),
                 softmax_backward(grad, y, axis), 64);
    expect_close(log_softmax_backward(random.strided(grad), random.strided(log_y), axis),
                 log_softmax_backward(grad, log_y, axis), 64);
  }
}

TEST(SoftmaxTest, TakesRowsThatBeginAnywhere) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Random random(seed);
    const std::int64_t size = random.integer(60, 900), offset = random.integer(1, 9);
    const Tensor memory = random.tensor({3 * size + offset}, kFloats[seed % 4]);
    const Tensor x = view::as_strided(memory, {3, size}, {size, 1}, offset);
    expect_same_bits(softmax(x, 1), softmax(clone(x), 1));
    expect_same_bits(softmax_backward(x, x, 1), softmax_backward(clone(x), clone(x), 1));
  }
}

TEST(SoftmaxTest, KeepsChannelsLast) {
  const Tensor x = zeros({2, 3, 4, 5}, {.layout = Layout::channels_last});
  EXPECT_TRUE(softmax(x, 1).is_channels_last());
}

TEST(SoftmaxTest, DoesNotDependOnTheNumberOfThreads) {
  Random random(5);
  const auto compute = [&](int threads, const Tensor& x, int axis) {
    const Team team(threads);
    return softmax(x, axis);
  };
  const Tensor long_rows = random.tensor({64, 5000}), short_rows = random.tensor({20000, 10});
  expect_same_bits(compute(1, long_rows, 1), compute(2, long_rows, 1));
  expect_same_bits(compute(1, short_rows, 1), compute(2, short_rows, 1));
  expect_same_bits(compute(1, long_rows, 0), compute(2, long_rows, 0));
}

TEST(SoftmaxTest, TakesEmptyTensors) {
  EXPECT_EQ(softmax(zeros({0, 5}), 1).shape(), Shape({0, 5}));
  EXPECT_EQ(log_softmax(zeros({5, 0}), 1).shape(), Shape({5, 0}));
}

TEST(SoftmaxTest, ThrowsForArgumentsThatDoNotFit) {
  expect_throws<DTypeError>([] { softmax(zeros({3}, {.dtype = DType::int64}), 0); }, "softmax");
  expect_throws<ShapeError>([] { softmax(zeros({3, 2}), 2); }, "softmax");
  expect_throws<ShapeError>([] { log_softmax(zeros({}), 0); }, "log_softmax");
  expect_throws<ShapeError>([] { softmax_backward(zeros({3}), zeros({4}), 0); },
                            "got grad_output (3,) and y (4,)");
  expect_throws<DTypeError>(
      [] { softmax_backward(zeros({3}), zeros({3}, {.dtype = DType::float64}), 0); },
      "float32 and float64");
}

}  // namespace
}  // namespace ringrad::kernels
