#include "ringrad/autograd/reduce.h"

#include <cmath>
#include <functional>
#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
    {"stddev",
     [](const Tensor& x, const Shape& axes, bool keepdim) { return stddev(x, axes, 1, keepdim); }},
    {"prod",
     [](const Tensor& x, const Shape& axes, bool keepdim) { return prod(x, axes, keepdim); }},
    {"logsumexp",
     [](const Tensor& x, const Shape& axes, bool keepdim) { return logsumexp(x, axes, keepdim); }},
    {"norm of order 1", [](const Tensor& x, const Shape& axes,
                           bool keepdim) { return vector_norm(x, 1, axes, keepdim); }},
    {"norm of order 2", [](const Tensor& x, const Shape& axes,
                           bool keepdim) { return vector_norm(x, 2, axes, keepdim); }},
    {"norm of order infinity",
     [](const Tensor& x, const Shape& axes, bool keepdim) {
       return vector_norm(x, kInfinity, axes, keepdim);
     }},
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

TEST(AutogradReduceTest, FactorsOfZeroHaveTheProductOfTheOthersAsGradient) {
  const Tensor x = tensor({{2., 0., 5.}, {0., 3., 0.}, {2., 3., 4.}}).set_requires_grad();
  prod(x, {1}).backward(ones({3}));
  expect_close(x.grad(), {0, 10, 0, 0, 0, 0, 12, 8, 6});
}

TEST(AutogradReduceTest, TheGradientsOfAProductWithZerosAgreeWithDifferences) {
  Random random(3);
  for (const std::int64_t n : {1, 3, 4}) {
    const Tensor x = random.tensor({3, n}, DType::float64);
    for (const std::int64_t zero : {std::int64_t{0}, n, 2 * n - 1})
      zero_(select(reshape(x, {3 * n}), 0, zero));
    x.set_requires_grad();
    const auto f = [](const std::vector<Tensor>& in) { return prod(in[0], {1}); };
    EXPECT_EQ(gradient_check(f, {x}), "") << n;
    EXPECT_EQ(gradient_gradient_check(f, {x}), "") << n;
  }
}

TEST(AutogradReduceTest, ProductsOfTheOthersMayPassThroughNumbersOutsideTheDTypesRange) {
  const Tensor x = tensor({1e4, 1e-4, 1e4, 1e-4}, DType::float16).set_requires_grad();
  prod(x).backward();
  const double large = 1e4, small = x.to_vector<double>()[1];
  const double of_large = large * small * small, of_small = large * large * small;
  expect_close(x.grad(), {of_large, of_small, of_large, of_small});
}

// The subgradient of smallest norm, as in PyTorch.
TEST(AutogradReduceTest, RootsOfZeroHaveAGradientOfZero) {
  const Tensor x = tensor({{0., 0.}, {3., 4.}}).set_requires_grad();
  vector_norm(x, 2, {1}).backward(ones({2}));
  expect_close(x.grad(), {0, 0, .6, .8});
  const Tensor constant = full({3}, 2).set_requires_grad();
  stddev(constant).backward();
  expect_close(constant.grad(), {0, 0, 0});
}

TEST(AutogradReduceTest, SecondDerivativesOfANormOf0Are0) {
  const Tensor x = zeros({2, 3}).set_requires_grad(), scale = tensor({1., 2.}).set_requires_grad();
  const Tensor first = grad(sum(vector_norm(x, 2, {1}) * scale), x, {}, {.create_graph = true});
  expect_close(grad(sum(first), scale), {0, 0});
}

TEST(AutogradReduceTest, LogsumexpNeitherOverflowsNorUnderflows) {
  expect_close(logsumexp(tensor({{1000., 1000.}, {-1000., -1000.}}), {1}),
               {1000 + std::log(2.), -1000 + std::log(2.)});
  expect_close(logsumexp(tensor({{-kInfinity, -kInfinity}, {kInfinity, 1}, {-kInfinity, 2}}), {1}),
               {-kInfinity, kInfinity, 2});
  expect_close(logsumexp(full({2}, 200, {.dtype = DType::float16})), {200 + std::log(2.)});
}

TEST(AutogradReduceTest, NormsAgreeWithTheirFormulas) {
  const Tensor x = tensor({{3., -4.}, {-6., 8.}});
  expect_close(vector_norm(x, 1, {1}), {7, 14});
  expect_close(vector_norm(x, 2, {1}, true), {5, 10});
  expect_close(vector_norm(x, kInfinity, {0}), {6, 8});
  expect_close(vector_norm(x), {std::sqrt(125.)});
  expect_close(stddev(x, {1}), {std::sqrt(24.5), std::sqrt(98.)});
  const Tensor large = full({4}, 300, {.dtype = DType::float16});  // squares do not fit
  expect_close(vector_norm(large), {600});
}

TEST(AutogradReduceTest, SquaresOfANormMayLeaveItsRange) {
  const double root = std::sqrt(2.);
  for (const double unit : {1e20, 1e-25, 1e37}) {
    const Tensor x = tensor({{unit, unit}, {unit, -unit}}).set_requires_grad();
    const Tensor norm = vector_norm(x, 2, {1}), deviation = stddev(x, {1});
    expect_close(norm / unit, {root, root});
    expect_close(deviation / unit, {0, root});
    (sum(norm) + sum(deviation)).backward();
    expect_close(x.grad(), {1 / root, 1 / root, root, -root});
  }
  for (const double unit : {1e200, 1e-200, 3e307, 1e-310}) {
    const Tensor x = tensor({{3., 4.}, {1., -1.}}, DType::float64) * unit;
    expect_close(vector_norm(x, 2, {1}) / unit, {5, root}, 256);
    expect_close(stddev(x, {1}) / unit, {1 / root, root}, 256);
    expect_close(stddev(x, {1}, 0) / unit, {.5, 1}, 256);
  }
  const Tensor special = tensor({{0., 0.}, {kInfinity, 1.}}, DType::float64);
  expect_close(vector_norm(special, 2, {1}), {0, kInfinity});
}

TEST(AutogradReduceTest, GradientsOfTheSmallestNormsAreFinite) {
  const Tensor x = tensor({3e-40, -4e-40}).set_requires_grad();
  vector_norm(x).backward();
  expect_close(x.grad(), {.6, -.8}, 1e3);  // of numbers with few digits
}

TEST(AutogradReduceTest, NormsOfEveryOrderAgreeWithTheirFormulas) {
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    const Tensor x = to(tensor({{3., -4., 0.}, {-6., 8., 1.}}), dtype);
    expect_close(vector_norm(x, 0, {1}), {2, 3});
    expect_close(vector_norm(x, -kInfinity, {1}), {0, 1});
    expect_close(vector_norm(x, 3, {1}), {std::cbrt(91.), std::cbrt(729.)});
    expect_close(
        vector_norm(x, 1.5),
        {std::pow(std::pow(3, 1.5) + 8 + std::pow(6, 1.5) + std::pow(8, 1.5) + 1, 1 / 1.5)});
    expect_close(vector_norm(x, 0.5, {0}, true),
                 {std::pow(std::sqrt(3.) + std::sqrt(6.), 2), std::pow(2 + std::sqrt(8.), 2), 1});
    expect_close(vector_norm(x, -2, {1}), {0, 1 / std::sqrt(1 / 36. + 1 / 64. + 1)});
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensor huge = tensor({{1e30, 1e30}, {1e-30, 1e-30}, {0., 0.}, {kInfinity, 1.}, {kNan, 1.}});
  const Tensor unit = tensor({1e30, 1e-30, 1., 1., 1.});
  expect_close(vector_norm(huge, 8, {1}) / unit,
               {std::pow(2, .125), std::pow(2, .125), 0, kInfinity, kNan});
  expect_close(vector_norm(huge, -4, {1}) / unit,
               {std::pow(2, -.25), std::pow(2, -.25), 0, 1, kNan});
  expect_close(vector_norm(huge, 0, {1}), {2, 2, 0, 2, 2});
}

// Values and gradients of PyTorch 2.15.
TEST(AutogradReduceTest, NormsHaveAGradientOfZeroWherePyTorchHas) {
  for (const double order : {-3., -1., 0., 0.5, 1.5, 2.5, 3.}) {
    const Tensor x = tensor({{0., 0.}, {0., -2.}}, DType::float64).set_requires_grad();
    vector_norm(x, order, {1}).backward(ones({2}, {.dtype = DType::float64}));
    expect_close(x.grad(), {0, 0, 0, order > 0 ? -1. : 0.});
  }
}

TEST(AutogradReduceTest, AnyAndAllTakeEveryDType) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::bool_}) {
    const Tensor x = to(tensor({{0., 1.}, {0., 0.}, {1., 1.}}), dtype);
    EXPECT_EQ(any(x).dtype(), DType::bool_);
    expect_close(any(x, {1}), {1, 0, 1});
    expect_close(all(x, {1}), {0, 0, 1});
    expect_close(all(transpose(x, 0, 1), {0}, true), {0, 0, 1});
  }
  EXPECT_TRUE(any(tensor({0., std::numeric_limits<double>::quiet_NaN()})).item<bool>());
  EXPECT_FALSE(any(ones({2}).set_requires_grad()).requires_grad());
}

TEST(AutogradReduceTest, NothingHasTheNeutralElements) {
  const Tensor x = empty({0, 2});
  EXPECT_FALSE(any(x).item<bool>());
  EXPECT_TRUE(all(x).item<bool>());
  expect_close(all(x, {0}), {1, 1});
  EXPECT_EQ(all(x, {1}).shape(), Shape{0});
  expect_close(logsumexp(x, {0}), {-kInfinity, -kInfinity});
  expect_close(prod(x, {0}), {1, 1});
  expect_close(vector_norm(x, 1, {0}), {0, 0});
  for (const double order : {0., 0.5, 2., 3.}) expect_close(vector_norm(x, order, {0}), {0, 0});
  for (const auto& [name, reduce] : kReductions) {
    const Tensor leaf = empty({0, 2}).set_requires_grad();
    reduce(leaf, {1}, false).backward(empty({0}));
    EXPECT_EQ(leaf.grad().shape(), (Shape{0, 2})) << name;
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

TEST(AutogradReduceTest, GradientsOfNormsOfEveryOrderAgreeWithDifferences) {
  Random random(3);
  for (const double order : {-2., 0.5, 1.5, 3.}) {
    const Tensor x = random.strided(random.tensor({2, 3}, DType::float64)).set_requires_grad();
    const auto f = [&](const std::vector<Tensor>& in) { return vector_norm(in[0], order, {1}); };
    EXPECT_EQ(gradient_check(f, {x}), "") << order;
    EXPECT_EQ(gradient_gradient_check(f, {x}), "") << order;
    const Tensor half = ones({4, 3}, {.dtype = DType::float16}).set_requires_grad();
    vector_norm(half, order).backward();
    EXPECT_EQ(half.grad().dtype(), DType::float16);
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
  expect_throws<DTypeError>([&] { stddev(arange(3)); }, "stddev: needs a floating dtype");
  expect_throws<DTypeError>([&] { logsumexp(arange(3)); }, "logsumexp: needs a floating dtype");
  expect_throws<ShapeError>([&] { any(x, {2}); }, "any: axis must be in [-2, 2); got 2");
  expect_throws<ValueError>([&] { vector_norm(x, std::nan("")); },
                            "the order must be a number; got nan");
  expect_throws<ShapeError>([&] { vector_norm(empty({0}), -1); },
                            "vector_norm: of order -1 needs an element; got shape (0,)");
  expect_throws<ShapeError>([&] { vector_norm(empty({0}), kInfinity); },
                            "vector_norm: of order inf needs an element; got shape (0,)");
  expect_throws<ShapeError>([&] { argmax(x, 5); }, "argmax: axis must be in");
}

}  // namespace
}  // namespace ringrad
