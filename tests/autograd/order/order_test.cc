// Scans, sorting and the best elements: gradients against differences, and what the kernels' tests
// do not see.

#include <cmath>
#include <functional>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/order/scan.h"
#include "ringrad/autograd/order/sort.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

// First and second derivatives at x agree with differences.
void expect_gradients(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  const auto of_list = [&](const std::vector<Tensor>& in) { return f(in[0]); };
  EXPECT_EQ(gradient_check(of_list, {x}), "");
  EXPECT_EQ(gradient_gradient_check(of_list, {x}), "");
}

Tensor random_leaf(const Shape& shape) {
  Random random(3);
  return random.tensor(shape, DType::float64).set_requires_grad();
}

TEST(ScanTest, GradientsAgreeWithDifferences) {
  const Tensor x = random_leaf({2, 4, 3});
  for (const std::int64_t axis : {0, 1, -1}) {
    expect_gradients(x, [&](const Tensor& in) { return square(cumsum(in, axis)); });
    expect_gradients(x, [&](const Tensor& in) { return cumprod(in, axis); });
  }
}

TEST(ScanTest, CumprodHasExactGradientsAtZeros) {
  const Tensor x = tensor({{2., 0., 3., 4.}, {0., 5., 0., 1.}}, DType::float64);
  expect_gradients(x.set_requires_grad(), [](const Tensor& in) { return cumprod(in, 1); });
  sum(cumprod(x, 1)).backward();
  expect_close(x.grad(), tensor({{1., 32., 0., 0.}, {6., 0., 0., 0.}}));
}

TEST(ScanTest, TakesTensorsWithoutAxes) {
  const Tensor x = tensor(3.).set_requires_grad();
  (cumsum(x, 0) * cumprod(x, -1)).backward();
  expect_close(x.grad(), {6});
}

TEST(SortTest, PassesTheGradientToTheElementsThatItChose) {
  const Tensor x = random_leaf({3, 5, 2});
  for (const bool flag : {false, true}) {
    expect_gradients(x, [&](const Tensor& in) { return square(sort(in, 1, flag).first); });
    expect_gradients(x, [&](const Tensor& in) { return square(topk(in, 2, 1, flag).first); });
    expect_gradients(x,
                     [&](const Tensor& in) { return square(max_with_indices(in, 1, flag).first); });
    expect_gradients(x,
                     [&](const Tensor& in) { return square(min_with_indices(in, 1, flag).first); });
  }
}

TEST(SortTest, TheFirstOfEqualElementsGetsTheGradient) {
  const Tensor x = tensor({1., 3., 3., NAN, NAN}).set_requires_grad();
  const auto [largest, at] = max_with_indices(x, 0);
  largest.backward();
  EXPECT_EQ(at.item<std::int64_t>(), 3);
  expect_close(x.grad(), {0, 0, 0, 1, 0});
  const auto [values, indices] = topk(x, 4, 0);
  expect_close(values, {NAN, NAN, 3, 3});
  expect_close(indices, {3, 4, 1, 2});
}

TEST(SortTest, SixteenBitGradientsKeepTheirDType) {
  const Tensor x = tensor({2., 1.}, DType::bfloat16).set_requires_grad();
  sum(sort(x).first * tensor({3., 5.}, DType::bfloat16)).backward();
  EXPECT_EQ(x.grad().dtype(), DType::bfloat16);
  expect_close(x.grad(), {5, 3});
}

TEST(SortTest, TakesTensorsWithoutAxes) {
  const Tensor x = tensor(7.).set_requires_grad();
  const auto [value, index] = sort(x, -1);
  EXPECT_EQ(value.shape(), Shape());
  EXPECT_EQ(index.item<std::int64_t>(), 0);
  (value + topk(x, 1).first + max_with_indices(x, 0).first).backward();
  expect_close(x.grad(), {3});
}

TEST(SortTest, KeepsTheAxisOnlyIfAsked) {
  const Tensor x = tensor({{1., 4.}, {3., 2.}});
  expect_close(max_with_indices(x, 0).first, {3, 4});
  expect_close(min_with_indices(x, 1, true).second, tensor({{0}, {1}}));
  expect_close(argsort(x, 1, true), tensor({{1, 0}, {0, 1}}));
  expect_close(searchsorted(tensor({1., 3., 5.}), tensor({3., 4.}), true), {2, 2});
}

TEST(SortTest, ThrowsAtTheCallersLine) {
  expect_throws<ShapeError>([] { sort(zeros({2, 3}), 2); }, "sort: axis");
  expect_throws<ShapeError>([] { topk(zeros({2, 3}), 4); }, "got 4 for axis -1 of (2, 3)");
  expect_throws<ShapeError>([] { topk(tensor(1.), 0); }, "topk: k must be 1");
  expect_throws<ShapeError>(
      [] {
        max_with_indices(zeros({2, 0}), 1);
      },
      "there must be an element to choose");
  expect_throws<ShapeError>([] { cumsum(zeros({2, 3}), 2); }, "cumsum: axis");
}

}  // namespace
}  // namespace ringrad
