// Operators as members of Tensor: each calls the function of its name with the same arguments, and
// errors name the caller's line.

#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::expect_throws;

class TensorMethodsTest : public ::testing::Test {
 protected:
  const Tensor x = tensor({{0.5, 2., 1.5}, {3., 0.25, 1.}});
  const Tensor square_matrix = tensor({{1., 2., 0.}, {0., -1., 1.}, {2., 0., 1.}});
};

TEST_F(TensorMethodsTest, ElementwiseOnesAreTheFunctions) {
  expect_same_bits(x.neg(), neg(x));
  expect_same_bits(square_matrix.abs(), abs(square_matrix));
  expect_same_bits(x.square(), square(x));
  expect_same_bits(x.exp(), exp(x));
  expect_same_bits(x.log(), log(x));
  expect_same_bits(x.sqrt(), sqrt(x));
  expect_same_bits(x.sin(), sin(x));
  expect_same_bits(x.cos(), cos(x));
  expect_same_bits(x.tanh(), tanh(x));
  expect_same_bits(x.sigmoid(), sigmoid(x));
  expect_same_bits(square_matrix.relu(), relu(square_matrix));
  expect_same_bits(x.pow(x), pow(x, x));
  expect_same_bits(x.pow(3), pow(x, 3));
  expect_same_bits(x.clamp(0.5, 1.5), clamp(x, 0.5, 1.5));
  expect_same_bits(x.softmax(1), softmax(x, 1));
  expect_same_bits(x.log_softmax(0), log_softmax(x, 0));
}

TEST_F(TensorMethodsTest, ReductionsAndProductsAreTheFunctions) {
  expect_same_bits(x.sum(), sum(x));
  expect_same_bits(x.sum({1}, true), sum(x, {1}, true));
  expect_same_bits(x.mean({0}), mean(x, {0}));
  expect_same_bits(x.max({1}, true), max(x, {1}, true));
  expect_same_bits(x.min({0}), min(x, {0}));
  expect_same_bits((x > 1).any({1}), any(x > 1, {1}));
  expect_same_bits((x > 1).all({0}, true), all(x > 1, {0}, true));
  expect_same_bits(x.argmax(1, true), argmax(x, 1, true));
  expect_same_bits(x.argmax(), argmax(x));
  expect_same_bits(x.matmul(square_matrix), matmul(x, square_matrix));
}

TEST_F(TensorMethodsTest, OnesOfShapeAndPlaceAreTheFunctions) {
  expect_same_bits(x.reshape({3, -1}), reshape(x, {3, -1}));
  expect_same_bits(x.flatten(), flatten(x));
  expect_same_bits(x.flatten(0, 0), flatten(x, 0, 0));
  expect_same_bits(x.permute({1, 0}), permute(x, {1, 0}));
  expect_same_bits(x.transpose(0, 1), transpose(x, 0, 1));
  expect_same_bits(x.unsqueeze(1), unsqueeze(x, 1));
  expect_same_bits(x.unsqueeze(1).squeeze({1}), x);
  expect_same_bits(x.to(DType::float64), to(x, DType::float64));
  EXPECT_TRUE(x.transpose(0, 1).contiguous().is_contiguous());
  EXPECT_NE(x.clone().storage(), x.storage());
  EXPECT_EQ(x.to(x.device()).device(), x.device());
}

TEST_F(TensorMethodsTest, InPlaceOnesChangeThisTensorAndReturnIt) {
  const Tensor y = clone(x);
  EXPECT_TRUE(y.add_(x, 2).is(y));
  expect_same_bits(y, x * 3);
  expect_same_bits(y.add_(1), x * 3 + 1);
  expect_same_bits(y.copy_(x).mul_(2), x * 2);
  expect_same_bits(y.mul_(x), x * 2 * x);
  expect_same_bits(y.fill_(7), full_like(x, 7));
  expect_same_bits(y.zero_(), zeros_like(x));
}

TEST_F(TensorMethodsTest, AreDifferentiable) {
  const Tensor leaf = clone(x).set_requires_grad();
  leaf.square().sum().backward();
  expect_same_bits(leaf.grad(), x * 2);
}

TEST_F(TensorMethodsTest, ErrorsNameTheCallersLine) {
  expect_throws<ShapeError>([&] { x.matmul(x); },
                            "matmul: inner dimensions must match; got (2, 3)");
  expect_throws<ShapeError>([&] { x.reshape({4}); }, "reshape: ");
  expect_throws<ValueError>([] { Tensor().sum(); }, "tensor: it must be defined");
}

}  // namespace
}  // namespace ringrad
