#include "ringrad/autograd/dropout.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::Random;

TEST(DropoutTest, GivesEachElementZeroOrItsScaledValue) {
  Random random(1);
  const Tensor x = random.tensor({1000}, 1, 2);
  const auto before = x.to_vector<float>();
  const auto after = dropout(x, 0.75, true, random.generator()).to_vector<float>();
  int dropped = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (after[i] == 0)
      ++dropped;
    else
      EXPECT_EQ(after[i], before[i] * 4);
  }
  EXPECT_NEAR(dropped, 750, 70);
}

TEST(DropoutTest, KeepsTheMean) {
  Random random(2);
  const Tensor y = dropout(ones({100000}), 0.3, true, random.generator());
  EXPECT_NEAR(mean(y).item(), 1, 0.02);
}

TEST(DropoutTest, IsTheIdentityOutsideOfTrainingAndForZero) {
  Random random(3);
  const Tensor x = random.tensor({10});
  const std::uint64_t offset = random.generator().offset();
  EXPECT_TRUE(dropout(x, 0.5, false, random.generator()).is(x));
  EXPECT_TRUE(dropout(x, 0, true, random.generator()).is(x));
  EXPECT_EQ(random.generator().offset(), offset);
}

TEST(DropoutTest, DropsEverythingForOne) {
  const Tensor x = full({10}, 3).set_requires_grad();
  const Tensor y = dropout(x, 1);
  expect_close(y, zeros({10}));
  sum(y).backward();
  expect_close(x.grad(), zeros({10}));
}

TEST(DropoutTest, ReplaysFromTheSameSeed) {
  const Tensor x = ones({500});
  Generator a(4), b(4), c(5);
  const Tensor y = dropout(x, 0.5, true, a);
  expect_same_bits(y, dropout(x, 0.5, true, b));
  EXPECT_NE(y.to_vector<float>(), dropout(x, 0.5, true, c).to_vector<float>());
}

TEST(DropoutTest, GradientIsTheMaskOfTheForwardPass) {
  Random random(6);
  const Tensor x = ones({200}).set_requires_grad();
  const Tensor y = dropout(x, 0.5, true, random.generator());
  sum(y).backward();
  expect_same_bits(x.grad(), y);  // with x = 1, both are mask * scale
}

TEST(DropoutTest, GradientsAgreeWithDifferences) {
  Random random(7);
  const Tensor x = random.tensor({4, 5}, DType::float64).set_requires_grad();
  const auto f = [](const std::vector<Tensor>& in) {
    Generator generator(8);  // the same mask in every call
    return square(dropout(in[0], 0.4, true, generator));
  };
  EXPECT_EQ(gradient_check(f, {x}), "");
  EXPECT_EQ(gradient_gradient_check(f, {x}), "");
}

TEST(DropoutTest, ThrowsAtTheCallersLine) {
  expect_throws<ValueError>([] { dropout(zeros({2}), 1.5); },
                            "dropout: p must be in [0, 1]; got 1.5");
  expect_throws<ValueError>([] { dropout(zeros({2}), -1, false); }, "got -1");
}

}  // namespace
}  // namespace ringrad
