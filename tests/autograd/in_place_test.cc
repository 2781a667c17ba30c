#include "ringrad/autograd/methods/in_place.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;

TEST(InPlaceTest, ChangesTheTensorUnderAllItsNames) {
  const Tensor y = tensor({1., 2., 3., 4.});
  const Tensor square = view::reshape(y, {2, 2});
  EXPECT_TRUE(add_(y, tensor({1., 1., 1., 1.}), 2).is(y));
  expect_close(square, {3, 4, 5, 6});
  sub_(y, 1);
  mul_(square, tensor({1., 10.}));
  expect_close(y, {2, 30, 4, 50});
  div_(y, 2);
  expect_close(y, {1, 15, 2, 25});
  copy_(square, tensor({7., 8.}));
  expect_close(y, {7, 8, 7, 8});
  fill_(square, 3);
  expect_close(y, {3, 3, 3, 3});
  zero_(y);
  expect_close(square, {0, 0, 0, 0});
}

TEST(InPlaceTest, OperatorsChangeTheTensorUnderAllItsNames) {
  const Tensor y = tensor({{1., 2.}, {3., 4.}}), row = y[1];
  EXPECT_TRUE((y += 1).is(y));
  row -= tensor({1., 2.});
  expect_close(y, {2, 3, 3, 3});
  y[0] *= 4;
  row /= tensor({3., 1.});
  expect_close(y, {8, 12, 1, 3});
  y += row;
  y -= 1;
  y *= y;
  y /= 2;
  expect_close(y, {32, 98, 0.5, 12.5});
  const Tensor parameter = ones({2}).set_requires_grad();
  try {
    parameter += 1;
    FAIL() << "nothing thrown";
  } catch (const AutogradError& error) {
    EXPECT_EQ(error.where().line(), Where::current().line() - 3);
  }
  const NoGradGuard guard;
  parameter -= 0.5;
  expect_close(parameter, {0.5, 0.5});
}

// Results are handles by value: a reference to the result must not depend on a temporary argument.
TEST(InPlaceTest, ResultsOutliveTheirArguments) {
  static_assert(std::is_same_v<decltype(ones({1}).set_requires_grad()), Tensor>);
  static_assert(std::is_same_v<decltype(add_(ones({1}), 1)), Tensor>);
  static_assert(std::is_same_v<decltype(copy_(ones({1}), ones({1}))), Tensor>);
  const Tensor& leaf = ones({2}).set_requires_grad();
  const Tensor& changed = mul_(add_(ones({2}), ones({2})), 3);
  ones({2});  // would reuse freed memory
  expect_close(leaf, {1, 1});
  EXPECT_TRUE(leaf.requires_grad());
  expect_close(changed, {6, 6});
}

TEST(InPlaceTest, EveryChangeIsCounted) {
  const Tensor y = ones({3}), x = ones({3});
  std::uint32_t before = y.version();
  const auto expect_counted = [&] { EXPECT_GT(y.version(), std::exchange(before, y.version())); };
  add_(y, x), expect_counted();
  add_(y, 1), expect_counted();
  sub_(y, x), expect_counted();
  sub_(y, 1), expect_counted();
  mul_(y, x), expect_counted();
  mul_(y, 2), expect_counted();
  div_(y, x), expect_counted();
  div_(y, 2), expect_counted();
  copy_(y, x), expect_counted();
  fill_(y, 1), expect_counted();
  zero_(y), expect_counted();
  EXPECT_EQ(y.storage()->changed_at().line(), Where::current().line() - 1);
}

TEST(InPlaceTest, KeepsTheDtype) {
  const Tensor y = ones({3}, {.dtype = DType::float16});
  add_(y, ones({3}, {.dtype = DType::float64}), 0.5);
  EXPECT_EQ(y.dtype(), DType::float16);
  expect_close(y, {1.5, 1.5, 1.5});
}

TEST(InPlaceTest, ThrowsForTensorsThatRequireAGradientWhileRecording) {
  const Tensor parameter = ones({2}).set_requires_grad();
  const Tensor result = exp(parameter);
  expect_throws<AutogradError>([&] { add_(parameter, 1); }, "got a leaf made at in_place_test.cc");
  expect_throws<AutogradError>([&] { mul_(result, 2); },
                               "got the result of exp at in_place_test.cc");
  expect_throws<AutogradError>([&] { zero_(result); }, "write y = y + x instead");
  expect_throws<AutogradError>([&] { copy_(ones({2}), result); }, "must not require a gradient");
}

TEST(InPlaceTest, ChangesParametersUnderNoGrad) {
  const Tensor parameter = ones({2}).set_requires_grad();
  {
    const NoGradGuard guard;
    sub_(parameter, tensor({0.5, 1}));
  }
  expect_close(parameter, {0.5, 0});
  EXPECT_TRUE(parameter.is_leaf());
}

TEST(InPlaceTest, BackwardNamesBothLinesOfAChangedSavedTensor) {
  const Tensor x = tensor({1., 2.}), w = tensor({1., 1.}).set_requires_grad();
  const Tensor y = w * x;
  add_(x, 1);
  expect_throws<AutogradError>([&] { y.backward(ones({2})); },
                               "it was changed in place at in_place_test.cc");
}

TEST(InPlaceTest, ThrowsWhenTheResultDoesNotFit) {
  expect_throws<ShapeError>(
      [] {
        add_(ones({2}), ones({3, 2}));
      },
      "got (2,) for a result of (3, 2)");
  expect_throws<ShapeError>([] { mul_(ones({2}), ones({3})); }, "got (2,) and (3,)");
  expect_throws<DTypeError>([] { div_(ones({2}, {.dtype = DType::int32}), 2); },
                            "got int32 for a result of float32");
  expect_throws<ValueError>([] { add_(view::expand(ones({1}), {3}), 1); },
                            "its own place in memory");
}

}  // namespace
}  // namespace ringrad
