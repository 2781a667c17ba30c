#include "ringrad/autograd/jacobian.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

Tensor random(const Shape& shape) { return randn(shape, {.dtype = DType::float64}); }

// A function whose derivatives have no simple form.
Tensor wave(const Tensor& x) { return sin(x) * sum(x * x) + exp(slice(x, 0, 0, 1)); }

TEST(JacobianTest, OfALinearFunctionIsItsMatrix) {
  const Tensor A = random({3, 4});
  testing::expect_close(jacobian([&](const Tensor& x) { return matmul(A, x); }, random({4})), A);
}

TEST(JacobianTest, HasTheAxesOfTheResultThenThoseOfX) {
  const Tensor x = random({2, 3});
  const Tensor J = jacobian([](const Tensor& at) { return sum(at, {1}); }, x);
  ASSERT_EQ(J.shape(), (Shape{2, 2, 3}));
  testing::expect_close(J, {1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1});
}

TEST(JacobianTest, AgreesWithFiniteDifferences) {
  const Tensor x = random({5}), J = jacobian(wave, x);
  constexpr double kStep = 1e-5;
  for (std::int64_t j = 0; j < 5; ++j) {
    const Tensor step = where(arange(5) == j, full({5}, kStep, {.dtype = DType::float64}), 0);
    testing::expect_close(select(J, 1, j), (wave(x + step) - wave(x - step)) / (2 * kStep), 1e7);
  }
}

TEST(JacobianTest, IsZeroWhereTheResultDoesNotDependOnX) {
  const Tensor J = jacobian([](const Tensor& x) { return floor(x).detach(); }, random({2}));
  testing::expect_close(J, {0, 0, 0, 0});
}

TEST(JacobianTest, RefusesIntegers) {
  testing::expect_throws<DTypeError>([] { jacobian(wave, tensor({1, 2})); }, "jacobian");
}

TEST(HessianTest, OfAQuadraticFormIsTheSymmetricMatrix) {
  const Tensor A = random({3, 3});
  testing::expect_close(
      hessian([&](const Tensor& x) { return sum(x * matmul(A, x)); }, random({3})),
      A + transpose(A, 0, 1));
}

TEST(HessianTest, OfALinearFunctionIsZero) {
  testing::expect_close(hessian([](const Tensor& x) { return sum(x); }, random({2})), {0, 0, 0, 0});
}

TEST(JvpTest, IsTheJacobianTimesTheDirection) {
  const Tensor x = random({5}), v = random({5});
  testing::expect_close(jvp(wave, x, v), matmul(jacobian(wave, x), v), 64);
}

TEST(JvpTest, RefusesADirectionOfAnotherShape) {
  testing::expect_throws<ShapeError>([] { jvp(wave, random({5}), random({4})); },
                                     "the direction must have x's shape; got (4,) and (5,)");
}

}  // namespace
}  // namespace ringrad
