#include "ringrad/autograd/order/quantile.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> columns(const Tensor& x, double (*f)(std::vector<double> sorted)) {
  std::vector<double> result;
  for (const Tensor column : transpose(x, 0, 1)) {
    std::vector<double> values = column.to_vector<double>();
    std::ranges::sort(values);
    result.push_back(f(values));
  }
  return result;
}

TEST(QuantileTest, AgreesWithSortedColumns) {
  Random random(1);
  for (const std::int64_t rows : {1, 2, 5, 8})
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      const Tensor x = random.strided(random.tensor({rows, 3}, dtype));
      expect_close(median(x, 0),
                   columns(x, [](auto sorted) { return sorted[(sorted.size() - 1) / 2]; }), 0);
      expect_close(quantile(x, 0.3, 0), columns(x, [](auto sorted) {
                     const double place = 0.3 * static_cast<double>(sorted.size() - 1);
                     const auto low = static_cast<std::size_t>(place);
                     const std::size_t high = std::min(low + 1, sorted.size() - 1);
                     return sorted[low] + (sorted[high] - sorted[low]) * (place - double(low));
                   }));
    }
}

TEST(QuantileTest, KnownValuesAndShapes) {
  const Tensor x = tensor({{4., 1.}, {3., 2.}});
  expect_close(median(x), {2});
  expect_close(quantile(x, 0.5), {2.5});
  expect_close(quantile(x, 0, -1), {1, 2});
  expect_close(quantile(x, 1, 0), {4, 2});
  EXPECT_EQ(median(x, {}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(quantile(x, 0.1, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(median(scalar_tensor(3)).shape(), Shape{});
  EXPECT_EQ(median(tensor({5, 7, 1, 3})).item<std::int64_t>(), 3);
}

TEST(QuantileTest, ANanInALineIsItsResult) {
  const Tensor x = tensor({{1., kNan, 2.}, {1., 3., 2.}});
  expect_close(median(x, 1), {kNan, 2});
  expect_close(quantile(x, 0, 1), {kNan, 1});
}

TEST(QuantileTest, NeighboursMayBeFurtherApartThanTheLargestNumber) {
  constexpr auto kInf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({-3e38, 3e38}).set_requires_grad();
  expect_close(quantile(x, 0.5), tensor(0.));
  expect_close(quantile(x, 0.75), tensor(1.5e38));
  quantile(x, 0.25).backward();
  expect_close(x.grad(), {0.75, 0.25});
  expect_close(quantile(tensor({-6e4, 6e4}, DType::float16), 0.25), tensor(-3e4));
  expect_close(quantile(tensor({-1.7e308, 1.7e308}, DType::float64), 0.5), tensor(0.));
  expect_close(quantile(tensor({1.f, kInf}), 0.5), tensor(kInf));
  expect_close(quantile(tensor({-kInf, -kInf}), 0.5), tensor(-kInf));
  expect_same_bits(quantile(tensor({0.1f, 0.1f}), 0.3), tensor(0.1f));
}

TEST(QuantileTest, GradientsAgreeWithDifferences) {
  Random random(2);
  const Tensor x = random.tensor({4, 3}, DType::float64).set_requires_grad();
  const DifferentiableFunction functions[] = {
      [](const auto& in) { return median(in[0], 0); }, [](const auto& in) { return median(in[0]); },
      [](const auto& in) { return quantile(square(in[0]), 0.4, 1); },
      [](const auto& in) { return quantile(square(in[0]), 0.7, 0, true); }};
  for (const DifferentiableFunction& f : functions) EXPECT_EQ(gradient_check(f, {x}), "");
  EXPECT_EQ(gradient_gradient_check(functions[2], {x}), "");
}

TEST(QuantileTest, Throws) {
  const Tensor x = ones({2, 3}), none;
  expect_throws<ValueError>([&] { quantile(x, 1.5); }, "quantile: q must be in [0, 1]; got 1.5");
  expect_throws<DTypeError>([&] { quantile(arange(3), 0.5); }, "needs a floating dtype");
  expect_throws<ShapeError>(
      [&] {
        median(empty({2, 0}), 1);
      },
      "median: there must be an element; got shape (2, 0)");
  expect_throws<ShapeError>([&] { median(x, 2); }, "median: axis must be in");
  expect_throws<ValueError>([&] { median(none); }, "must be defined");
  expect_throws<ValueError>([&] { quantile(none, 0.5); }, "must be defined");
}

}  // namespace
}  // namespace ringrad
