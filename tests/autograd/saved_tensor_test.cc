#include "ringrad/autograd/saved_tensor.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"

namespace ringrad {
namespace {

TEST(SavedTensorTest, InPlaceChangeOfASavedInputIsNamedWithBothLines) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  const Tensor scale = tensor({3., 4.});
  const Tensor y = sum(x * scale);
  const int forward_line = __LINE__ - 1;
  add_(scale, 1);
  const int change_line = __LINE__ - 1;
  try {
    y.backward();
    FAIL() << "the change went unnoticed";
  } catch (const AutogradError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(concat("saved_tensor_test.cc:", forward_line)), std::string::npos)
        << message;
    EXPECT_NE(message.find(concat("saved_tensor_test.cc:", change_line)), std::string::npos)
        << message;
    EXPECT_NE(message.find("mul"), std::string::npos) << message;
  }
}

TEST(SavedTensorTest, ChangeThroughAViewIsNoticed) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  const Tensor scale = tensor({3., 4.});
  const Tensor y = sum(x * scale);
  fill_(view::slice(scale, 0, 0, 1), 7);
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(SavedTensorTest, ChangeOfASavedOutputIsNoticed) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  const Tensor y = exp(x);
  const Tensor total = sum(y);
  fill_(y.detach(), 0);
  EXPECT_THROW(total.backward(), AutogradError);
}

TEST(SavedTensorTest, ChangeOfATensorThatWasNotSavedIsHarmless) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  const Tensor other = tensor({3., 4.});
  const Tensor y = sum(x + other);  // the gradient of a sum needs neither operand
  add_(other, 1);
  y.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(SavedTensorTest, SavedOutputDoesNotKeepItselfAlive) {
  const Tensor x = tensor({1., 2.}).set_requires_grad();
  exp(x);  // the first use makes a leaf, which stays
  const std::int64_t before = allocator_stats().allocated_bytes;
  { const Tensor y = exp(x); }
  EXPECT_EQ(allocator_stats().allocated_bytes, before);
}

}  // namespace
}  // namespace ringrad
