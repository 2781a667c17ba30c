#include "ringrad/autograd/index/gather.h"

#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

TEST(GatherTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const Tensor x = random.tensor({3, 4, 5}, DType::float64).set_requires_grad();
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 4, 3}, Shape{1, 2, 1}}) {
    const Tensor index = randint(0, 3, shape, random.generator());
    for (const std::int64_t axis : {0, 1, 2}) {
      const auto f = [&](const std::vector<Tensor>& in) { return gather(in[0], axis, index); };
      EXPECT_EQ(gradient_check(f, {x}), "");
      EXPECT_EQ(gradient_gradient_check(f, {x}), "");
    }
  }
}

TEST(GatherTest, ScatterAddGradientsAgreeWithDifferences) {
  Random random(2);
  const Tensor x = random.tensor({3, 4}, DType::float64).set_requires_grad();
  const Tensor src = random.tensor({3, 6}, DType::float64).set_requires_grad();
  for (const Shape& shape : {Shape{3, 6}, Shape{2, 5}}) {
    const Tensor index = randint(0, 4, shape, random.generator());
    const auto f = [&](const std::vector<Tensor>& in) {
      return scatter_add(in[0], 1, index, in[1]);
    };
    EXPECT_EQ(gradient_check(f, {x, src}), "");
    EXPECT_EQ(gradient_gradient_check(f, {x, src}), "");
  }
}

TEST(GatherTest, ScatterAddGivesUncoveredElementsNoGradient) {
  const Tensor x = zeros({1, 2}), src = ones({2, 3}).set_requires_grad();
  sum(scatter_add(x, 1, zeros({1, 2}, {.dtype = DType::int64}), src)).backward();
  expect_close(src.grad(), tensor({{1., 1., 0.}, {0., 0., 0.}}));
}

TEST(GatherTest, ThrowsAtTheCallersLine) {
  const Tensor index = full({1, 1}, 5, {.dtype = DType::int64});
  expect_throws<IndexError>(
      [&] {
        gather(zeros({2, 5}), 1, index);
      },
      "gather: index must be in [0, 5); got 5 at position (0, 0)");
  expect_throws<IndexError>(
      [&] {
        scatter_add(zeros({2, 5}), 1, index, zeros({1, 1}));
      },
      "scatter_add: index must be in [0, 5); got 5");
}

}  // namespace
}  // namespace ringrad
