#include "ringrad/autograd/reduce.h"

#include <functional>
#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

using Reduction = std::function<Tensor(const Tensor& x, const Shape& axes, bool keepdim)>;

struct Row {
  const char* name;
  Reduction reduce;
};

const Row kReductions[] = {
    {"sum", [](const Tensor& x, const Shape& axes, bool keepdim) { return sum(x, axes, keepdim); }},
    {"mean",
     [](const Tensor& x, const Shape& axes, bool keepdim) { return mean(x, axes, keepdim); }},
    {"var",
     [](const Tensor& x, const Shape& axes, bool keepdim) { return var(x, axes, 1, keepdim); }},
    {"biased var",
     [](const Tensor& x, const Shape& axes, bool keepdim) { return var(x, axes, 0, keepdim); }},
    {"max", [](const Tensor& x, const Shape& axes, bool keepdim) { return max(x, axes, keepdim); }},
    {"min", [](const Tensor& x, const Shape& axes, bool keepdim) { return min(x, axes, keepdim); }},
};

// -- Properties ---------------------------------------------------------------------------------

TEST(AutogradReduceTest, ANumberIsAnAxisAsForSoftmax) {
  const Tensor x = tensor({{1., 2., 3.}, {4., 5., 6.}});
  testing::expect_close(sum(x, 0), {5, 7, 9});
  testing::expect_close(sum(x, -1), {6, 15});
  testing::expect_close(mean(x, 1, true), {2, 5});
  testing::expect_close(max(x, 0), {4, 5, 6});
}

TEST(AutogradReduceTest, TheGradientOfASumIsOneEverywhere) {
  const Tensor x = ones({2, 3});
  x.set_requires_grad();
  sum(x).backward();
  expect_close(x.grad(), {1, 1, 1, 1, 1, 1});
}

TEST(AutogradReduceTest, TheGradientOfAMeanIsShared) {
  const Tensor x = ones({2, 4});
  x.set_requires_grad();
  mean(x, {1}).backward(tensor({1., 2.}));
  expect_close(x.grad(), {.25, .25, .25, .25, .5, .5, .5, .5});
}

TEST(AutogradReduceTest, TiesShareTheGradientEvenly) {
  const Tensor x = tensor({{3., 1., 3.}, {2., 2., 2.}});
  x.set_requires_grad();
  max(x, {1}).backward(tensor({1., 3.}));
  expect_close(x.grad(), {.5, 0, .5, 1, 1, 1});
}

// As in PyTorch: the elements that became the result receive its gradient.
TEST(AutogradReduceTest, NansShareTheGradientEvenly) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const auto reduce : {max, min}) {
    const Tensor x = tensor({{1, kNan, 1, kNan}, {1, 0, 0, 1}});
    x.set_requires_grad();
    sum(reduce(x, {1}, false, Where::current())).backward();
    const bool is_max = reduce == max;
    const double one = is_max ? .5 : 0, zero = is_max ? 0 : .5;
    expect_close(x.grad(), {0, .5, 0, .5, one, zero, zero, one});
  }
}

TEST(AutogradReduceTest, PositionsHaveNoHistory) {
  const Tensor x = tensor({1., 3., 2.});
  x.set_requires_grad();
  EXPECT_FALSE(argmax(x).requires_grad());
  EXPECT_EQ(argmax(x).item<std::int64_t>(), 1);
  EXPECT_EQ(argmin(x, 0).item<std::int64_t>(), 0);
}

TEST(AutogradReduceTest, GradientsComeInTheInputsDType) {
  for (const DType dtype : {DType::float64, DType::float16, DType::bfloat16})
    for (const auto& [name, reduce] : kReductions) {
      const Tensor x = ones({4, 3}, {.dtype = dtype});
      x.set_requires_grad();
      sum(reduce(x, {0}, false)).backward();
      EXPECT_EQ(x.grad().dtype(), dtype) << name;
    }
}

TEST(AutogradReduceTest, EmptyTensorsHaveEmptyGradients) {
  const Tensor x = empty({0, 3});
  x.set_requires_grad();
  sum(x).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{0, 3}));
}

// -- Gradients ----------------------------------------------------------------------------------

TEST(AutogradReduceTest, GradientsAgreeWithDifferences) {
  Random random(1);
  for (const auto& [name, reduce] : kReductions)
    for (const Shape& axes : {Shape{}, Shape{0}, Shape{-1}, Shape{2, 0}})
      for (const bool keepdim : {false, true}) {
        const Tensor x = random.tensor({3, 2, 4}, DType::float64);
        x.set_requires_grad();
        const auto f = [&](const std::vector<Tensor>& in) { return reduce(in[0], axes, keepdim); };
        EXPECT_EQ(gradient_check(f, {x}), "") << name << " over " << axes;
        const auto curved = [&](const std::vector<Tensor>& in) {
          return reduce(in[0] * in[0] * in[0], axes, keepdim);
        };
        EXPECT_EQ(gradient_gradient_check(curved, {x}), "") << name << " over " << axes;
      }
}

TEST(AutogradReduceTest, GradientsReachStridedTensors) {
  Random random(2);
  for (const auto& [name, reduce] : kReductions) {
    const Tensor x = random.strided(random.tensor({3, 4}, DType::float64));
    x.set_requires_grad();
    const auto f = [&](const std::vector<Tensor>& in) { return reduce(in[0], {1}, false); };
    EXPECT_EQ(gradient_check(f, {x}), "") << name;
  }
}

// -- Errors -------------------------------------------------------------------------------------

TEST(AutogradReduceTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor x = ones({2, 3});
  expect_throws<ShapeError>([&] { sum(x, {2}); }, "sum: axis must be in [-2, 2); got 2");
  expect_throws<ShapeError>([&] { max(empty({0})); }, "max: there must be an element to choose");
  expect_throws<DTypeError>([&] { mean(arange(3)); }, "mean: needs a floating dtype; got int64");
  expect_throws<ValueError>([&] { var(x, {}, -2); },
                            "var: correction must not be negative; got -2");
  expect_throws<ShapeError>([&] { argmax(x, 5); }, "argmax: axis must be in");
}

}  // namespace
}  // namespace ringrad
