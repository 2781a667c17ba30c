#include "ringrad/autograd/broadcast.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

Tensor variable(Random& random, const Shape& shape) {
  const Tensor x = random.tensor(shape, DType::float64);
  x.set_requires_grad();
  return x;
}

TEST(BroadcastTest, ExpandRepeatsWithoutCopying) {
  const Tensor x = tensor({1., 2.});
  const Tensor y = expand(x, {3, 2});
  expect_close(y, {1, 2, 1, 2, 1, 2});
  EXPECT_EQ(y.raw_data(), x.raw_data());
}

TEST(BroadcastTest, SumToAddsWhatExpandRepeats) {
  expect_close(sum_to(ones({2, 3, 4}), {3, 1}), {8, 8, 8});
  expect_close(sum_to(tensor({{1., 2.}, {3., 4.}}), {2}), {4, 6});
}

TEST(BroadcastTest, TheSameShapeIsTheSameTensor) {
  const Tensor x = ones({2, 3});
  EXPECT_TRUE(expand(x, {2, 3}).is(x));
  EXPECT_TRUE(sum_to(x, {2, 3}).is(x));
}

TEST(BroadcastTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const auto expanded = [](const std::vector<Tensor>& in) {
    return expand(in[0] * in[0], {2, 3, 4});
  };
  EXPECT_EQ(gradient_check(expanded, {variable(random, {3, 1})}), "");
  EXPECT_EQ(gradient_gradient_check(expanded, {variable(random, {3, 1})}), "");
  const auto summed = [](const std::vector<Tensor>& in) { return sum_to(in[0] * in[0], {3, 1}); };
  EXPECT_EQ(gradient_check(summed, {variable(random, {2, 3, 4})}), "");
  EXPECT_EQ(gradient_gradient_check(summed, {variable(random, {2, 3, 4})}), "");
}

TEST(BroadcastTest, ThrowsWhenShapesDoNotBroadcast) {
  expect_throws<ShapeError>([] { expand(ones({2}), {3}); },
                            "expand: axes must be equal or 1; got (2,) and (3,)");
  expect_throws<ShapeError>([] { sum_to(ones({3}), {2}); },
                            "sum_to: the shape must broadcast to the tensor's; got (2,) and (3,)");
}

}  // namespace
}  // namespace ringrad
