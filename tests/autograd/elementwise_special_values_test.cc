#include <cmath>
#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;

Tensor leaf(const Tensor& x) { return x.set_requires_grad(); }

// Where PyTorch 2.15 has a gradient at a kink, at NaN and at infinity, it is this one.
TEST(ElementwiseSpecialValuesTest, GradientsAtKinksAndSpecialValuesArePyTorchs) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = NAN;
  const auto check = [](const auto& f, std::initializer_list<double> expected) {
    for (const bool recorded : {false, true}) {
      const Tensor x = leaf(tensor({0., -1., 1., kNan, -kInf, kInf, 100.}));
      const Tensor gradient = grad(f(x), x, ones({7}), {.create_graph = recorded});
      expect_close(gradient, expected);
    }
  };
  const double slope = 1 / (1 + std::exp(1.));
  check([](const Tensor& x) { return leaky_relu(x); }, {0.01, 0.01, 1, 0.01, 0.01, 1, 1});
  check([](const Tensor& x) { return elu(x); }, {1, std::exp(-1.), 1, 1, 0, 1, 1});
  check([](const Tensor& x) { return softplus(x); }, {0.5, slope, 1 - slope, kNan, 0, 1, 1});
  check([](const Tensor& x) { return nan_to_num(x); }, {1, 1, 1, 0, 0, 0, 1});
  const Tensor zero = leaf(zeros({1})), other = leaf(zeros({1}));
  atan2(zero, other).backward(ones({1}));
  expect_close(zero.grad(), {0});
  expect_close(other.grad(), {0});
}

TEST(ElementwiseSpecialValuesTest, SecondDerivativesOfActivationsAreFiniteForLargeNumbers) {
  for (const auto& f :
       {+[](const Tensor& x) { return softplus(x); }, +[](const Tensor& x) { return elu(x); },
        +[](const Tensor& x) { return silu(x); }}) {
    const Tensor x = leaf(tensor({1000., 100., -100., -1000.}));
    const Tensor first = grad(f(x), x, ones({4}), {.create_graph = true});
    expect_close(grad(first, x, ones({4})), {0, 0, 0, 0});
  }
}

TEST(ElementwiseSpecialValuesTest, RecordedGradientsTakeBoolOperands) {
  const Tensor x = leaf(tensor({1., 2.})), flag = tensor({true, false});
  for (const bool recorded : {false, true})
    expect_close(grad(atan2(x, flag), x, ones({2}), {.create_graph = recorded}), {0.5, 0});
}

TEST(ElementwiseSpecialValuesTest, InfinityBecomesTheLargestNumberOfTheDtype) {
  const Tensor infinite = tensor({INFINITY, -INFINITY});
  for (const auto& [dtype, most] : {std::pair{DType::float16, 65504.},
                                    {DType::bfloat16, 0x1.fep127},
                                    {DType::float32, double(std::numeric_limits<float>::max())}}) {
    const Tensor y = nan_to_num(to(infinite, dtype));
    EXPECT_EQ(y.dtype(), dtype);
    expect_close(y, {most, -most});
  }
}

// The expected dtypes and values are PyTorch 2.15's. Before, the first product was float32.
TEST(ElementwiseSpecialValuesTest, TensorsWithoutAxesDoNotWidenTheirClass) {
  const auto of = [](DType dtype) { return full({2}, 3, {.dtype = dtype}); };
  const auto number = [](DType dtype) { return full({}, 2, {.dtype = dtype}); };
  const Tensor half = leaf(of(DType::float16)), scale = leaf(number(DType::float32));
  const Tensor y = half * scale;
  EXPECT_EQ(y.dtype(), DType::float16);
  sum(y).backward();
  EXPECT_EQ(half.grad().dtype(), DType::float16);
  EXPECT_EQ(scale.grad().dtype(), DType::float32);
  expect_close(scale.grad(), tensor(6.));
  expect_close(half.grad(), {2, 2});
  EXPECT_EQ((number(DType::float64) - of(DType::bfloat16)).dtype(), DType::bfloat16);
  EXPECT_EQ((of(DType::uint8) + number(DType::int64)).dtype(), DType::uint8);
  EXPECT_EQ((of(DType::int64) + number(DType::float16)).dtype(), DType::float16);
  EXPECT_EQ((of(DType::bool_) + number(DType::int32)).dtype(), DType::int32);
  EXPECT_EQ((of(DType::int32) / number(DType::int64)).dtype(), DType::float32);
  EXPECT_EQ(pow(of(DType::float32), number(DType::float64)).dtype(), DType::float32);
  EXPECT_EQ(maximum(number(DType::float32), of(DType::float16)).dtype(), DType::float16);
  const Tensor yes = ones({2}, {.dtype = DType::bool_});
  EXPECT_EQ(where(yes, of(DType::float16), number(DType::float64)).dtype(), DType::float16);
  EXPECT_EQ(lerp(of(DType::float16), of(DType::float16), number(DType::float32)).dtype(),
            DType::float16);
  EXPECT_EQ((number(DType::float16) * number(DType::float32)).dtype(), DType::float32);
  EXPECT_EQ((of(DType::float16) * full({1}, 2)).dtype(), DType::float32);
  // A comparison converts to the common dtype, in which 2^24 + 1 rounds to 2^24.
  const Tensor wide = full({}, 16777217, {.dtype = DType::float64});
  expect_close(eq(full({2}, 16777216), wide), {1, 1});
}

// (x s(z))'' = p (2 z' + x z'' - x z'^2 tanh(z / 2)) with p = s(z) s(-z), the sigmoid's slope. For
// gelu_tanh z is 2 u, for silu x.
TEST(ElementwiseSpecialValuesTest, DerivativesOfGatesKeepTheirDigitsFarFromZero) {
  const auto derivatives = [](const auto& f, const Tensor& x) {
    const Tensor first = grad(f(x), x, ones_like(x), {.create_graph = true});
    return std::pair{first.detach(), grad(first, x, ones_like(x))};
  };
  const auto product = [](double z) { return std::exp(-z) / std::pow(1 + std::exp(-z), 2); };
  for (const double x : {0., 0.5, 5., 6.5, -3., -5., -8.}) {
    const double c = std::sqrt(8 / M_PI), z = c * x * (1 + 0.044715 * x * x);
    const double dz = c * (1 + 3 * 0.044715 * x * x), ddz = c * 6 * 0.044715 * x;
    const double second = product(z) * (2 * dz + x * ddz - x * dz * dz * std::tanh(z / 2));
    const auto [first, actual] =
        derivatives([](const Tensor& t) { return gelu_tanh(t); }, leaf(tensor({x})));
    EXPECT_NEAR(actual.item<double>(), second, 4e-5 * std::abs(second)) << x;
  }
  for (const double x : {0., 5., 20., -20., -40.}) {
    const double second = product(x) * (2 - x * std::tanh(x / 2));
    const auto [first, actual] =
        derivatives([](const Tensor& t) { return silu(t); }, leaf(tensor({x})));
    EXPECT_NEAR(actual.item<double>(), second, 4e-5 * std::abs(second)) << x;
  }
  const Tensor low = leaf(full({1}, -100, {.dtype = DType::float64}));
  const auto [first, second] = derivatives([](const Tensor& t) { return silu(t); }, low);
  EXPECT_NEAR(first.item<double>(), -3.682875216260627e-42, 1e-54);  // the values of PyTorch 2.15
  EXPECT_NEAR(second.item<double>(), -3.6456744565004186e-42, 1e-54);
}

// The values of PyTorch 2.15.
TEST(ElementwiseSpecialValuesTest, ComparisonsOfHalvesRoundTheOtherOperand) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = full({1}, 0.1, {.dtype = dtype}), wide = full({}, 0.1);
    expect_close(concatenate({x == 0.1, x <= 0.1, x >= 0.1, 0.1 == x, x == wide}, 0),
                 {1, 1, 1, 1, 1});
    expect_close(concatenate({x != 0.1, x<0.1, x> 0.1, 0.1 > x, x != wide}, 0), {0, 0, 0, 0, 0});
  }
}

// In 16 bits the weight 0.999 would be 1. In float32 the sum is 1.999, which rounds to 2 here.
TEST(ElementwiseSpecialValuesTest, InterpolationOfHalvesKeepsTheDigitsOfItsWeight) {
  for (const Shape& shape : {Shape{}, Shape{1}}) {
    const Options options{.dtype = DType::bfloat16};
    const Tensor a = leaf(full(shape, 1000, options)), y = lerp(a, full(shape, 1, options), 0.999);
    expect_close(y, full(shape, 2, options));
    EXPECT_EQ(y.dtype(), DType::bfloat16);
    sum(y).backward();
    expect_close(a.grad(), full(shape, 0.001, options));
  }
}

}  // namespace
}  // namespace ringrad
