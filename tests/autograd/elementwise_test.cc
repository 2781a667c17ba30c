#include "ringrad/autograd/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/reference/elementwise.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

Tensor leaf(const Tensor& x) { return x.set_requires_grad(); }

// -- Tables ---------------------------------------------------------------------------------------

struct UnaryCase {
  const char* name;
  Tensor (*op)(const Tensor& x);
  double low, high;  // where the operator is smooth
};

const UnaryCase kUnary[] = {
    {"neg", [](const Tensor& x) { return -x; }, -2, 2},
    {"abs", [](const Tensor& x) { return abs(x); }, 0.1, 2},
    {"abs below 0", [](const Tensor& x) { return abs(x); }, -2, -0.1},
    {"square", [](const Tensor& x) { return square(x); }, -2, 2},
    {"exp", [](const Tensor& x) { return exp(x); }, -2, 2},
    {"expm1", [](const Tensor& x) { return expm1(x); }, -2, 2},
    {"log", [](const Tensor& x) { return log(x); }, 0.3, 3},
    {"log1p", [](const Tensor& x) { return log1p(x); }, -0.6, 3},
    {"sqrt", [](const Tensor& x) { return sqrt(x); }, 0.3, 3},
    {"rsqrt", [](const Tensor& x) { return rsqrt(x); }, 0.3, 3},
    {"reciprocal", [](const Tensor& x) { return reciprocal(x); }, 0.3, 3},
    {"sin", [](const Tensor& x) { return sin(x); }, -3, 3},
    {"cos", [](const Tensor& x) { return cos(x); }, -3, 3},
    {"tanh", [](const Tensor& x) { return tanh(x); }, -2, 2},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, -3, 3},
    {"erf", [](const Tensor& x) { return erf(x); }, -2, 2},
    {"gelu", [](const Tensor& x) { return gelu(x); }, -2, 2},
    {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }, -2, 2},
    {"tan", [](const Tensor& x) { return tan(x); }, -1, 1},
    {"asin", [](const Tensor& x) { return asin(x); }, -0.8, 0.8},
    {"acos", [](const Tensor& x) { return acos(x); }, -0.8, 0.8},
    {"atan", [](const Tensor& x) { return atan(x); }, -2, 2},
    {"sinh", [](const Tensor& x) { return sinh(x); }, -2, 2},
    {"cosh", [](const Tensor& x) { return cosh(x); }, -2, 2},
    {"asinh", [](const Tensor& x) { return asinh(x); }, -2, 2},
    {"acosh", [](const Tensor& x) { return acosh(x); }, 1.3, 3},
    {"atanh", [](const Tensor& x) { return atanh(x); }, -0.8, 0.8},
    {"silu", [](const Tensor& x) { return silu(x); }, -3, 3},
    {"softplus", [](const Tensor& x) { return softplus(x, 2, 9); }, -3, 3},
    {"softplus above", [](const Tensor& x) { return softplus(x, 2, 1) * x; }, 0.6, 2},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.1) * x; }, -2, -0.1},
    {"elu", [](const Tensor& x) { return elu(x, 0.5); }, -2, -0.1},
    {"elu above 0", [](const Tensor& x) { return elu(x) * x; }, 0.1, 2},
    {"trunc", [](const Tensor& x) { return trunc(x) * x; }, 1.1, 1.9},
    {"nan_to_num", [](const Tensor& x) { return nan_to_num(x) * x; }, -2, 2},
    {"x mod 2", [](const Tensor& x) { return remainder(x, 2) * x; }, 2.1, 3.9},
    {"x // 2", [](const Tensor& x) { return floor_divide(x, 2) * x; }, 2.1, 3.9},
    {"relu", [](const Tensor& x) { return relu(x); }, 0.1, 2},
    {"relu below 0", [](const Tensor& x) { return relu(x) * x; }, -2, -0.1},
    {"clamp", [](const Tensor& x) { return clamp(x, -3, 3); }, -2, 2},
    {"clamp outside", [](const Tensor& x) { return clamp(x, -1, 1) * x; }, 1.1, 2},
    {"floor", [](const Tensor& x) { return floor(x) * x; }, 0.1, 0.9},
    {"ceil", [](const Tensor& x) { return ceil(x) * x; }, 0.1, 0.9},
    {"round", [](const Tensor& x) { return round(x) * x; }, 0.6, 0.9},
    {"sign", [](const Tensor& x) { return sign(x) * x; }, 0.1, 0.9},
    {"x + 2", [](const Tensor& x) { return x + 2; }, -2, 2},
    {"2 + x", [](const Tensor& x) { return 2 + x; }, -2, 2},
    {"x - 2", [](const Tensor& x) { return x - 2; }, -2, 2},
    {"2 - x", [](const Tensor& x) { return 2 - x; }, -2, 2},
    {"x * 3", [](const Tensor& x) { return x * 3; }, -2, 2},
    {"0.5 * x", [](const Tensor& x) { return 0.5 * x; }, -2, 2},
    {"x / 3", [](const Tensor& x) { return x / 3; }, -2, 2},
    {"3 / x", [](const Tensor& x) { return 3 / x; }, 0.3, 2},
    {"x^2", [](const Tensor& x) { return pow(x, 2); }, -2, 2},
    {"x^-1.5", [](const Tensor& x) { return pow(x, -1.5); }, 0.3, 2},
    {"x^0", [](const Tensor& x) { return pow(x, 0) * x; }, -2, 2},
    {"3^x", [](const Tensor& x) { return pow(3, x); }, -2, 2},
    {"maximum(x, 0)", [](const Tensor& x) { return maximum(x, 0) * x; }, 0.1, 2},
    {"minimum(x, 0)", [](const Tensor& x) { return minimum(x, 0) * x; }, 0.1, 2},
    {"where(x > 1, x^2, 0)", [](const Tensor& x) { return where(x > 1, x * x, 0); }, 1.1, 2},
    {"where(x > 1, 0, x^2)", [](const Tensor& x) { return where(x > 1, 0, x * x); }, 0.1, 0.9},
};

struct BinaryCase {
  const char* name;
  Tensor (*op)(const Tensor& a, const Tensor& b);
};

const BinaryCase kBinary[] = {
    {"a + b", [](const Tensor& a, const Tensor& b) { return a + b; }},
    {"a - b", [](const Tensor& a, const Tensor& b) { return a - b; }},
    {"a * b", [](const Tensor& a, const Tensor& b) { return a * b; }},
    {"a / b", [](const Tensor& a, const Tensor& b) { return a / b; }},
    {"pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }},
    {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); }},
    {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); }},
    {"add_relu", [](const Tensor& a, const Tensor& b) { return add_relu(a, b - 1.4); }},
    {"relu_gradient",
     [](const Tensor& a, const Tensor& b) { return relu_gradient(a + b, (a + b - 2).detach()); }},
    {"atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); }},
    {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a + 9, b) * a; }},
    {"lerp", [](const Tensor& a, const Tensor& b) { return lerp(a, b, a * b); }},
    {"lerp by a number", [](const Tensor& a, const Tensor& b) { return lerp(a, b, 0.3) * b; }},
    {"where", [](const Tensor& a, const Tensor& b) { return where(a > b, a * b, b / a); }},
};

const std::pair<Shape, Shape> kBroadcasts[] = {{{}, {}},         {{3}, {3}},          {{2, 3}, {3}},
                                               {{2, 1}, {1, 3}}, {{3, 1, 2}, {2, 2}}, {{}, {4}}};

// -- Properties -----------------------------------------------------------------------------------

TEST(ElementwiseTest, SymbolsMeanTheirFunctions) {
  const Tensor a = tensor({1., -2., 3.}), b = tensor({2., 2., 3.});
  expect_close(2 * a + a / 2.0 - (1 - b) * b, {4.5, -3, 13.5});
  expect_close(-a, {-1, 2, -3});
  expect_close(a == b, {0, 0, 1});
  expect_close(a != b, {1, 1, 0});
  expect_close(a < b, {1, 1, 0});
  expect_close(a >= b, {0, 0, 1});
  expect_close(0 < a, {1, 0, 1});
  expect_close(1 >= a, {1, 1, 0});
  expect_close(3 == a, {0, 0, 1});
  expect_close(logical_and(a > 0, logical_not(b == 3)), {1, 0, 0});
}

TEST(ElementwiseTest, ResultsRememberTheLineOfTheirSymbol) {
  const Tensor a = ones({2});
  const Tensor b = 2 * a;
  EXPECT_EQ(b.made_at().line(), Where::current().line() - 1);
  EXPECT_TRUE(std::string(b.made_at().file_name()).ends_with("elementwise_test.cc"));
}

TEST(ElementwiseTest, OnlyResultsOfDifferentiableOperatorsOnRecordedTensorsRequireAGradient) {
  const Tensor x = leaf(ones({2})), constant = ones({2});
  EXPECT_TRUE((x + constant).requires_grad());
  EXPECT_FALSE((constant + constant).requires_grad());
  EXPECT_FALSE((x > constant).requires_grad());
  EXPECT_FALSE(isnan(x).requires_grad());
  const NoGradGuard guard;
  EXPECT_FALSE(exp(x).requires_grad());
}

TEST(ElementwiseTest, GradientsOfBroadcastOperandsHaveTheirShapeAndDtype) {
  const Tensor a = leaf(ones({2, 1, 3}, {.dtype = DType::float16}));
  const Tensor b = leaf(ones({4, 1}));
  const Tensor y = a * b;
  EXPECT_EQ(y.dtype(), DType::float32);
  y.backward(ones({2, 4, 3}));
  EXPECT_EQ(a.grad().dtype(), DType::float16);
  EXPECT_EQ(b.grad().dtype(), DType::float32);
  expect_close(a.grad(), full({2, 1, 3}, 4));
  expect_close(b.grad(), full({4, 1}, 6));
}

TEST(ElementwiseTest, EqualOperandsShareTheGradientOfMaximum) {
  const Tensor a = leaf(tensor({1., 2., 3.})), b = leaf(tensor({3., 2., 1.}));
  maximum(a, b).backward(ones({3}));
  expect_close(a.grad(), {0, 0.5, 1});
  expect_close(b.grad(), {1, 0.5, 0});
}

TEST(ElementwiseTest, PowerHasFiniteGradientsAtZero) {
  const Tensor a = leaf(tensor({0., 0., 2.})), b = leaf(tensor({0., 2., 0.}));
  pow(a, b).backward(ones({3}));
  expect_close(a.grad(), {0, 0, 0});
  expect_close(b.grad(), {0, 0, std::log(2.0)});
}

TEST(ElementwiseTest, ChannelsLastGradientsStayChannelsLast) {
  const Tensor x = empty({2, 3, 4, 5}, {.layout = Layout::channels_last});
  const Tensor y = gelu(leaf(x - x));
  EXPECT_TRUE(y.is_channels_last());
  const Tensor gradient = grad(y, y, ones({2, 3, 4, 5}, {.layout = Layout::channels_last}));
  EXPECT_TRUE(gradient.is_channels_last());
}

TEST(ElementwiseTest, OnlyOperandsThatAGradientNeedsAreSaved) {
  const Tensor x = leaf(ones({2})), factor = ones({2}), unused = ones({2});
  const Tensor y = x * factor, z = x + unused;
  unused.mark_changed(Where::current());
  x.detach().mark_changed(Where::current());  // factor needs no gradient, so x was not saved
  y.backward(ones({2}));
  z.backward(ones({2}));
  expect_close(x.grad(), {2, 2});
}

TEST(ElementwiseTest, ASavedOperandThatChangedIsNamed) {
  const Tensor x = leaf(ones({2})), factor = ones({2});
  const Tensor y = x * factor;
  factor.mark_changed(Where::current());
  expect_throws<AutogradError>([&] { y.backward(ones({2})); }, "backward of mul");
}

// -- Gradients against finite differences ---------------------------------------------------------

TEST(ElementwiseTest, UnaryGradientsAgreeWithFiniteDifferencesTwice) {
  Random random(20);
  for (const UnaryCase& row : kUnary) {
    SCOPED_TRACE(row.name);
    const auto f = [&](const std::vector<Tensor>& x) { return row.op(x[0]); };
    const Tensor x = leaf(random.tensor({2, 3}, row.low, row.high, DType::float64));
    EXPECT_EQ(gradient_check(f, {x}), "");
    EXPECT_EQ(gradient_gradient_check(f, {x}), "");
  }
}

TEST(ElementwiseTest, BinaryGradientsAgreeWithFiniteDifferencesTwice) {
  Random random(21);
  for (const BinaryCase& row : kBinary)
    for (const auto& [shape_a, shape_b] : kBroadcasts) {
      if (row.name == std::string("relu_gradient") && shape_a.size() != shape_b.size()) continue;
      SCOPED_TRACE(concat(row.name, ' ', shape_a, ' ', shape_b));
      const auto f = [&](const std::vector<Tensor>& x) { return row.op(x[0], x[1]); };
      const Tensor a = leaf(random.tensor(shape_a, 0.5, 2, DType::float64));
      const Tensor b = leaf(random.tensor(shape_b, 0.5, 2, DType::float64));
      EXPECT_EQ(gradient_check(f, {a, b}), "");
      EXPECT_EQ(gradient_gradient_check(f, {a, b}), "");
      EXPECT_EQ(gradient_check(f, {a, b.detach()}), "");
      EXPECT_EQ(gradient_check(f, {a.detach(), b}), "");
    }
}

// The usual backward pass runs fused loops, a recorded one public operators: one formula, two
// programs.
TEST(ElementwiseTest, FusedAndRecordedGradientsAgreeForEveryDtypeAndSize) {
  Random random(22);
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const Shape& shape : {Shape{3}, Shape{33, 41}})
      for (const UnaryCase& row : kUnary) {
        SCOPED_TRACE(concat(row.name, ' ', dtype, ' ', shape));
        const Tensor x = leaf(random.strided(random.tensor(shape, row.low, row.high, dtype)));
        const Tensor weights = random.tensor(shape, 0.5, 1.5, dtype);
        const Tensor fused = grad(row.op(x), x, weights);
        const Tensor recorded = grad(row.op(x), x, weights, {.create_graph = true});
        expect_close(fused, recorded, 64);
      }
}

TEST(ElementwiseTest, BroadcastGradientsAgreeWithTheReference) {
  Random random(23);
  for (const auto& [shape_a, shape_b] : {std::pair<Shape, Shape>{{64, 3, 17}, {3, 1}},
                                         {{40, 1}, {1, 50}},
                                         {{7, 9}, {}},
                                         {{0, 3}, {3}}}) {
    SCOPED_TRACE(concat(shape_a, ' ', shape_b));
    const Tensor a = leaf(random.tensor(shape_a)), b = leaf(random.tensor(shape_b, 0.5, 2));
    const Tensor y = a / b;
    const Tensor weights = random.tensor(y.shape());
    y.backward(weights);
    const Tensor for_a =
        reference::elementwise([](const auto& v) { return v[0] / v[1]; }, {weights, b});
    const Tensor for_b = reference::elementwise(
        [](const auto& v) { return -v[0] * v[1] / (v[2] * v[2]); }, {weights, a, b});
    expect_close(a.grad(), reference::sum_to(for_a, shape_a), 256);
    expect_close(b.grad(), reference::sum_to(for_b, shape_b), 2048);
  }
}

// The expected values are PyTorch's.
TEST(ElementwiseTest, GradientsAtNanAndAtBoundsFollowPyTorch) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInf = std::numeric_limits<float>::infinity();
  const auto gradient = [](const Tensor& y, const Tensor& x) {
    return grad(y, x, ones(y.shape()), {.retain_graph = true});
  };
  const Tensor x = leaf(tensor({kNan, -1.f, 0.f, 1.f, kInf}));
  expect_close(gradient(relu(x), x), {1, 0, 0, 1, 1});
  expect_close(gradient(add_relu(x, zeros({5})), x), {1, 0, 0, 1, 1});
  // PyTorch 2.15 gives 0 at the bounds of clamp, as at those of relu6 and hardtanh; 1.13 gives 1.
  expect_close(gradient(clamp(x, -1, 1), x), {0, 0, 1, 0, 0});
  expect_close(gradient(clamp(x, 0, 1), x), {0, 0, 0, 0, 0});
  expect_close(gradient(abs(x), x), {0, -1, 0, 1, 1});
  const Tensor a = leaf(tensor({kNan, 1.f, 1.f, kNan, 2.f}));
  const Tensor b = leaf(tensor({1.f, kNan, 1.f, kNan, 1.f}));
  expect_close(gradient(maximum(a, b), a), {1, 1, .5, 1, 1});
  expect_close(gradient(maximum(a, b), b), {1, 1, .5, 1, 0});
  expect_close(gradient(minimum(a, b), a), {1, 1, .5, 1, 0});
  expect_close(gradient(minimum(a, b), b), {1, 1, .5, 1, 1});
  const Tensor base = leaf(zeros({3})), exponent = leaf(tensor({0., -1., 2.}));
  expect_close(gradient(pow(base, exponent), base), {0, -kInf, 0});
  expect_close(gradient(pow(base, exponent), exponent), {0, -kInf, 0});
  expect_close(gradient(pow(0, exponent), exponent), {0, -kInf, 0});
}

// b^2 overflows or vanishes where a / b^2 does not.
TEST(ElementwiseTest, QuotientsOfExtremesHaveFiniteGradients) {
  const Tensor a = leaf(tensor({0, 1e25, 1e-30, 3e38})),
               b = leaf(tensor({1e-25, 1e22, 1e-20, 1e30}));
  for (const bool recorded : {false, true}) {
    const Tensor by_b = grad(sum(a / b), b, {}, {.create_graph = recorded});
    expect_close(by_b, {0, -1e-19, -1e10, -3e-22});
    expect_close(grad(sum(1e25 / b), b, {}, {.create_graph = recorded}),
                 {-std::numeric_limits<double>::infinity(), -1e-19,
                  -std::numeric_limits<double>::infinity(), -1e-35});
  }
  const Tensor tiny = leaf(full({1}, 1e-18));
  expect_close(grad(reciprocal(tiny), tiny, full({1}, 1e-20)), {-1e16});
  expect_close(grad(rsqrt(tiny), tiny, full({1}, 1e-20)), {-5e6});
  const Tensor large = leaf(full({1}, 3e38));
  expect_close(grad(square(large), large, full({1}, 1e-10)), {6e28});
}

TEST(ElementwiseTest, SecondDerivativesHoldWhereAFormulaHasAPole) {
  const auto second = [](const Tensor& y, const Tensor& x, const Tensor& by) {
    return grad(grad(y, x, ones(y.shape()), {.create_graph = true}), by, ones(y.shape()),
                {.retain_graph = true});
  };
  const Tensor scale = leaf(ones({2})), base = leaf(zeros({2})), exponent = leaf(tensor({0., 2.}));
  expect_close(second(scale * pow(base, exponent), exponent, scale), {0, 0});
  expect_close(second(scale * pow(base, exponent), base, scale), {0, 0});
  expect_close(second(scale * pow(0, exponent), exponent, scale), {0, 0});
  const Tensor x = leaf(tensor({-1e10, 1e10, -40, 40, 1e30}));
  for (const auto op : {gelu, gelu_tanh}) {
    const Tensor y = op(x, Where::current());
    expect_close(grad(y, x, ones({5}), {.retain_graph = true}), {0, 1, 0, 1, 1});
    expect_close(second(y, x, x), {0, 0, 0, 0, 0});
  }
}

// Intermediate values overflow float16, but not float32.
TEST(ElementwiseTest, RecordedGradientsOfHalvesEqualTheFusedOnes) {
  struct Extreme {
    Tensor (*op)(const Tensor& x);
    double x, gradient;
  };
  const Extreme extremes[] = {
      {[](const Tensor& x) { return 1 / x; }, 300, -1 / 9e4},
      {[](const Tensor& x) { return div(full({1}, 500, {.dtype = x.dtype()}), x); }, 245,
       -500 / 6.0025e4},
      {[](const Tensor& x) { return gelu_tanh(x); }, 1000, 1},
      {[](const Tensor& x) { return rsqrt(x); }, 1e4, -5e-7},
      {[](const Tensor& x) { return pow(x, 3) * 1e-4; }, 200, 12},
      {[](const Tensor& x) { return square(x) * 1e-3; }, 4e4, 80}};
  for (const auto& [op, value, gradient] : extremes)
    for (const bool recorded : {false, true}) {
      SCOPED_TRACE(concat("at ", value, recorded ? " recorded" : ""));
      const Tensor x = leaf(full({1}, value, {.dtype = DType::float16}));
      expect_close(grad(op(x), x, {}, {.create_graph = recorded}), {gradient});
    }
}

// -- Errors ---------------------------------------------------------------------------------------

TEST(ElementwiseTest, ErrorsBlameTheCallersLine) {
  const Tensor a = ones({2}), b = ones({3});
  expect_throws<ShapeError>([&] { a + b; }, "add: shapes must broadcast; got (2,) and (3,)");
  expect_throws<ShapeError>([&] { a == b; }, "eq: shapes must broadcast; got (2,) and (3,)");
  const Tensor flags = a > 0;
  expect_throws<DTypeError>([&] { flags* flags; }, "mul: needs numbers; got bool");
  expect_throws<DTypeError>([&] { where(a, a, a); },
                            "where: the condition must be bool; got float32");
  expect_throws<DeviceError>([&] { a / ones({2}, {.device = "cpu:1"}); },
                             concat("got ", default_device(), " and cpu:1"));
}

TEST(ElementwiseTest, ClampThrowsUnlessLowIsBelowHigh) {
  expect_throws<ValueError>([] { clamp(ones({1}), 2, 1); },
                            "clamp: low must not exceed high; got 2 and 1");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_throws<ValueError>([&] { leaky_relu(ones({1}), nan); },
                            "leaky_relu: slope must be finite; got nan");
  expect_throws<ValueError>([&] { elu(ones({1}), nan); }, "elu: alpha must be finite");
  expect_throws<ValueError>([&] { softplus(ones({1}), nan); }, "softplus: beta must be finite");
  expect_throws<ValueError>([&] { softplus(ones({1}), 1, nan); }, "threshold must be a number");
  expect_throws<ValueError>([&] { clamp(ones({1}), nan, 1); }, "got nan and 1");
}

TEST(ElementwiseTest, ReluGradientThrowsUnlessItsOperandsAgree) {
  expect_throws<ShapeError>([] { relu_gradient(ones({2}), ones({3})); },
                            "relu_gradient: shapes must be equal; got (2,) and (3,)");
  expect_throws<DTypeError>([] { relu_gradient(ones({2}), ones({2}, {.dtype = DType::float64})); },
                            "got float32 and float64");
}

}  // namespace
}  // namespace ringrad
