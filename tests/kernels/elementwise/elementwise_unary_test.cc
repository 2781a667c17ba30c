#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/tests/kernels/elementwise/elementwise_operands.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/elementwise.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using namespace testing;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// -- Tables: an operator beside its formula -------------------------------------------------------

struct UnaryCase {
  const char* name;
  Tensor (*kernel)(const Tensor& x, Where where);
  double (*formula)(double x);
  double low, high;  // where operands are drawn from
};

template <class Op>
Tensor apply(const Tensor& x, Where where) {
  return kernels::unary(Op(), x, where);
}

double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

const UnaryCase kSmooth[] = {
    {"exp", apply<ops::Exp>, [](double x) { return std::exp(x); }, -3, 3},
    {"expm1", apply<ops::Expm1>, [](double x) { return std::expm1(x); }, -3, 3},
    {"log", apply<ops::Log>, [](double x) { return std::log(x); }, 0.1, 9},
    {"log1p", apply<ops::Log1p>, [](double x) { return std::log1p(x); }, -0.9, 9},
    {"sqrt", apply<ops::Sqrt>, [](double x) { return std::sqrt(x); }, 0, 9},
    {"rsqrt", apply<ops::Rsqrt>, [](double x) { return 1 / std::sqrt(x); }, 0.1, 9},
    {"reciprocal", apply<ops::Reciprocal>, [](double x) { return 1 / x; }, 0.2, 4},
    {"sin", apply<ops::Sin>, [](double x) { return std::sin(x); }, -9, 9},
    {"cos", apply<ops::Cos>, [](double x) { return std::cos(x); }, -9, 9},
    {"tanh", apply<ops::Tanh>, [](double x) { return std::tanh(x); }, -4, 4},
    {"sigmoid", apply<ops::Sigmoid>, [](double x) { return 1 / (1 + std::exp(-x)); }, -9, 9},
    {"erf", apply<ops::Erf>, [](double x) { return std::erf(x); }, -3, 3},
    {"tan", apply<ops::Tan>, [](double x) { return std::tan(x); }, -1.4, 1.4},
    {"asin", apply<ops::Asin>, [](double x) { return std::asin(x); }, -1, 1},
    {"acos", apply<ops::Acos>, [](double x) { return std::acos(x); }, -1, 1},
    {"atan", apply<ops::Atan>, [](double x) { return std::atan(x); }, -9, 9},
    {"sinh", apply<ops::Sinh>, [](double x) { return std::sinh(x); }, -4, 4},
    {"cosh", apply<ops::Cosh>, [](double x) { return std::cosh(x); }, -4, 4},
    {"asinh", apply<ops::Asinh>, [](double x) { return std::asinh(x); }, -9, 9},
    {"acosh", apply<ops::Acosh>, [](double x) { return std::acosh(x); }, 1, 9},
    {"atanh", apply<ops::Atanh>, [](double x) { return std::atanh(x); }, -0.9, 0.9},
    {"silu", apply<ops::Silu>, [](double x) { return x / (1 + std::exp(-x)); }, -9, 9},
    {"softplus",
     [](const Tensor& x, Where where) { return kernels::unary(ops::Softplus(2, 4), x, where); },
     [](double x) { return 2 * x > 4 ? x : std::log1p(std::exp(2 * x)) / 2; }, -4, 4},
    {"leaky_relu",
     [](const Tensor& x, Where where) { return kernels::unary(ops::LeakyRelu(0.1), x, where); },
     [](double x) { return x > 0 ? x : 0.1 * x; }, -4, 4},
    {"elu", [](const Tensor& x, Where where) { return kernels::unary(ops::Elu(0.5), x, where); },
     [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); }, -4, 4},
    {"gelu", apply<ops::Gelu>, [](double x) { return x * phi(x); }, -4, 4},
    {"gelu_tanh", apply<ops::GeluTanh>,
     [](double x) {
       const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
       return 0.5 * x * (1 + std::tanh(u));
     },
     -4, 4},
};

const UnaryCase kOfNumbers[] = {
    {"neg", apply<ops::Neg>, [](double x) { return -x; }, -3, 3},
    {"abs", apply<ops::Abs>, [](double x) { return std::abs(x); }, -3, 3},
    {"square", apply<ops::Square>, [](double x) { return x * x; }, -3, 3},
    {"relu", apply<ops::Relu>, [](double x) { return std::max(x, 0.0); }, -3, 3},
    {"sign", apply<ops::Sign>, [](double x) { return double((x > 0) - (x < 0)); }, -3, 3},
    {"floor", apply<ops::Floor>, [](double x) { return std::floor(x); }, -3, 3},
    {"ceil", apply<ops::Ceil>, [](double x) { return std::ceil(x); }, -3, 3},
    {"round", apply<ops::Round>, [](double x) { return std::nearbyint(x); }, -3, 3},
    {"trunc", apply<ops::Trunc>, [](double x) { return std::trunc(x); }, -3, 3},
    {"nan_to_num",
     [](const Tensor& x, Where where) { return kernels::unary(ops::NanToNum(0, 1, 2), x, where); },
     [](double x) { return x; }, -3, 3},
    {"x mod 2",
     [](const Tensor& x, Where where) {
       return kernels::unary(ops::RightScalar<ops::Remainder>(2), x, where);
     },
     [](double x) { return x - 2 * std::floor(x / 2); }, -3, 3},
    {"clamp",
     [](const Tensor& x, Where where) { return kernels::unary(ops::Clamp(1, 2), x, where); },
     [](double x) { return std::min(std::max(x, 1.0), 2.0); }, -3, 3},
    {"pow",
     [](const Tensor& x, Where where) { return kernels::unary(ops::PowScalar(3), x, where); },
     [](double x) { return x * x * x; }, -3, 3},
    {"x - 1",
     [](const Tensor& x, Where where) {
       return kernels::unary(ops::RightScalar<ops::Sub>(1), x, where);
     },
     [](double x) { return x - 1; }, -3, 3},
    {"2 - x",
     [](const Tensor& x, Where where) {
       return kernels::unary(ops::LeftScalar<ops::Sub>(2), x, where);
     },
     [](double x) { return 2 - x; }, -3, 3},
};

Tensor expected(const UnaryCase& row, const Tensor& x) {
  return reference::elementwise([&](const auto& v) { return row.formula(v[0]); }, {x});
}

// -- Properties -----------------------------------------------------------------------------------

TEST(ElementwiseUnaryTest, NanAndInfinityFollowTheFormulas) {
  const Tensor x = doubles({kNan, kInf, -kInf, -0.0});
  expect_close(kernels::unary(ops::Relu(), x), {kNan, kInf, 0, 0});
  expect_close(kernels::unary(ops::Sigmoid(), x), {kNan, 1, 0, 0.5});
  expect_close(kernels::unary(ops::Clamp(-1, 1), x), {kNan, 1, -1, 0});
  expect_close(kernels::unary(ops::Log(), doubles({kNan, kInf, -1, 0})), {kNan, kInf, kNan, -kInf});
  expect_close(kernels::unary(ops::IsNan(), x), {1, 0, 0, 0});
  expect_close(kernels::unary(ops::IsFinite(), x), {0, 0, 0, 1});
  expect_close(kernels::unary(ops::NanToNum(7, 8, 9), x), {7, 8, 9, 0});
  expect_close(kernels::unary(ops::Softplus(1, 20), x), {kNan, kInf, 0, std::log(2)});
  expect_close(kernels::unary(ops::Elu(2), x), {kNan, kInf, -2, 0});
}

TEST(ElementwiseUnaryTest, HalvesRoundToTheEvenNeighbour) {
  expect_close(kernels::unary(ops::Round(), doubles({0.5, 1.5, 2.5, -0.5, -1.5, 0.4999})),
               {0, 2, 2, 0, -2, 0});
}

TEST(ElementwiseUnaryTest, NumbersDoNotWidenATensorOfTheirClass) {
  const Tensor integers = ones({2}, {.dtype = DType::int32});
  EXPECT_EQ(kernels::unary(ops::Exp(), integers).dtype(), DType::float32);
  EXPECT_EQ(kernels::unary(ops::RightScalar<ops::Add>(2), integers).dtype(), DType::int32);
  EXPECT_EQ(kernels::unary(ops::RightScalar<ops::Add>(0.5), integers).dtype(), DType::float32);
}

TEST(ElementwiseUnaryTest, ResultsDoNotDependOnTheNumberOfThreads) {
  Random random(3);
  const Tensor x = random.tensor({300'007});
  const Tensor strided = random.strided(random.tensor({500, 601}));
  const auto compute = [&](int threads) {
    const Team team(threads);
    return std::pair(kernels::unary(ops::Exp(), x), kernels::unary(ops::Tanh(), strided));
  };
  const auto alone = compute(1), together = compute(3);
  expect_same_bits(alone.first, together.first);
  expect_same_bits(alone.second, together.second);
}

// -- Agreement with the reference -----------------------------------------------------------------

TEST(ElementwiseUnaryTest, OperatorsAgreeWithTheReference) {
  Random random(10);
  const auto check = [&](const UnaryCase& row, DType dtype) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(concat(row.name, ' ', dtype, ' ', shape));
      const Tensor x = operand(random, shape, dtype, row.low, row.high);
      const Tensor y = row.kernel(x, Where::current());
      expect_close(y, expected(row, x));
      expect_close(row.kernel(random.strided(x), Where::current()), expected(row, x));
      EXPECT_EQ(y.dtype(), dtype);
    }
  };
  for (const UnaryCase& row : kSmooth)
    for (const DType dtype : kFloats) check(row, dtype);
  for (const UnaryCase& row : kOfNumbers)
    for (const DType dtype : kNumbers)
      if (dtype != DType::uint8 || row.name != std::string("neg")) check(row, dtype);
}

TEST(ElementwiseUnaryTest, BitsAreInverted) {
  for (const DType dtype : {DType::int32, DType::int64}) {
    const Tensor x = kernels::cast(doubles({0, 5, -1, 1 << 20}), dtype);
    const Tensor y = kernels::unary(ops::BitwiseNot(), x);
    EXPECT_EQ(y.dtype(), dtype);
    expect_close(y, {-1, -6, 0, -1 - (1 << 20)});
  }
  expect_close(kernels::unary(ops::BitwiseNot(), full({40}, 5, {.dtype = DType::uint8})),
               full({40}, 250));
  const Tensor flags = kernels::cast(doubles({0, 1}), DType::bool_);
  EXPECT_EQ(kernels::unary(ops::BitwiseNot(), flags).dtype(), DType::bool_);
  expect_close(kernels::unary(ops::BitwiseNot(), flags), {1, 0});
}

// -- Errors ---------------------------------------------------------------------------------------

TEST(ElementwiseUnaryTest, ThrowsForBool) {
  expect_throws<DTypeError>([&] { kernels::unary(ops::Neg(), ones({2}, {.dtype = DType::bool_})); },
                            "neg: needs numbers; got bool");
  expect_throws<DTypeError>([&] { kernels::unary(ops::BitwiseNot(), ones({2})); },
                            "bitwise_not: needs integers or bool; got float32");
}

TEST(ElementwiseUnaryTest, ThrowsForNumbersThatTheDtypeCannotHold) {
  const Tensor bytes = ones({2}, {.dtype = DType::uint8});
  expect_throws<ValueError>([&] { kernels::unary(ops::RightScalar<ops::Add>(300), bytes); },
                            "got 300 and uint8");
  expect_throws<ValueError>([&] { kernels::unary(ops::RightScalar<ops::Mul>(-1), bytes); },
                            "got -1 and uint8");
}

TEST(ElementwiseUnaryTest, DividesByAndComparesWithNumbersThatTheDtypeCannotHold) {
  const Tensor bytes = full({1}, 128, {.dtype = DType::uint8});
  const auto quotient = [&](const auto& op) {
    return kernels::unary(op, bytes).template item<float>();
  };
  EXPECT_EQ(quotient(ops::RightScalar<ops::Div>(256)), 0.5f);
  EXPECT_EQ(quotient(ops::RightScalar<ops::Div>(-1)), -128);
  EXPECT_EQ(quotient(ops::LeftScalar<ops::Div>(320)), 2.5f);
  const Tensor most = full({1}, 0x7fffffff, {.dtype = DType::int32});
  const auto holds = [](const auto& op, const Tensor& x) {
    return kernels::unary(op, x).template item<bool>();
  };
  const std::int64_t above = std::int64_t{1} << 31;  // the same float as the number before it
  EXPECT_TRUE(holds(ops::RightScalar<ops::Lt>(above), most));
  EXPECT_FALSE(holds(ops::RightScalar<ops::Eq>(above), most));
  EXPECT_TRUE(holds(ops::RightScalar<ops::Lt>(300), bytes));
  EXPECT_TRUE(holds(ops::RightScalar<ops::Ne>(-1), bytes));
}

}  // namespace
}  // namespace ringrad
