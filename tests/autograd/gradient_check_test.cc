#include "ringrad/autograd/gradient_check.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/random/random.h"

namespace ringrad {
namespace {

Tensor input() {
  Generator generator(3);
  return rand({3, 2}, {.dtype = DType::float64}, generator).set_requires_grad();
}

// x^2 with a derivative that is wrong by a factor.
Tensor square_with_gradient(const Tensor& x, double factor) {
  Tensor y = x.detach() * x.detach();
  record("square_with_gradient", Where::current(), y, {&x},
         [x = save(x), factor](BackwardContext& context) {
           context.set(0, context.grad_output() * x.get() * factor);
         });
  return y;
}

TEST(GradientCheckTest, AcceptsARightGradient) {
  EXPECT_EQ(gradient_check([](const auto& v) { return square_with_gradient(v[0], 2); }, {input()}),
            "");
}

TEST(GradientCheckTest, NamesTheElementOfAWrongGradient) {
  const std::string message =
      gradient_check([](const auto& v) { return square_with_gradient(v[0], 2.1); }, {input()});
  EXPECT_NE(message.find("input 0 at element 0"), std::string::npos) << message;
}

TEST(GradientCheckTest, NoticesAMissingGradient) {
  EXPECT_NE(gradient_check([](const auto& v) { return v[0] + v[1].detach(); }, {input(), input()}),
            "");
}

TEST(GradientCheckTest, SecondOrderAcceptsRightAndRejectsWrong) {
  EXPECT_EQ(gradient_gradient_check([](const auto& v) { return exp(v[0]) * v[0]; }, {input()}), "");
  // Right value, but the factor x is detached from the recorded gradient.
  const auto wrong = [](const std::vector<Tensor>& v) {
    const Tensor x = v[0];
    Tensor y = x.detach() * x.detach();
    record("square", Where::current(), y, {&x}, [x = save(x)](BackwardContext& context) {
      context.set(0, context.grad_output() * x.get().detach() * 2);
    });
    return y;
  };
  EXPECT_EQ(gradient_check(wrong, {input()}), "");
  EXPECT_NE(gradient_gradient_check(wrong, {input()}), "");
}

TEST(GradientCheckTest, NeedsDoublePrecision) {
  EXPECT_THROW(
      gradient_check([](const auto& v) { return v[0] * 2; }, {ones({2}).set_requires_grad()}),
      DTypeError);
}

}  // namespace
}  // namespace ringrad
