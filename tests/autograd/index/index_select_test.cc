#include "ringrad/autograd/index/index_select.h"

#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

TEST(IndexSelectTest, GradientsAgreeWithDifferences) {
  for (const std::int64_t axis : {0, 1, -1}) {
    Random random(static_cast<std::uint64_t>(axis + 1));
    const Tensor x = random.tensor({3, 4, 5}, DType::float64).set_requires_grad();
    const Tensor indices = randint(0, x.size(axis), {7}, random.generator());
    const auto f = [&](const std::vector<Tensor>& in) {
      return index_select(in[0], axis, indices);
    };
    EXPECT_EQ(gradient_check(f, {x}), "");
    EXPECT_EQ(gradient_gradient_check(f, {x}), "");
  }
}

TEST(IndexSelectTest, GradientCountsHowOftenASliceWasPicked) {
  const Tensor x = zeros({4, 2}).set_requires_grad();
  const std::int64_t picked[] = {1, 3, 1};
  const Tensor indices = from_values<std::int64_t>(picked, {3});
  sum(index_select(x, 0, indices)).backward();
  expect_close(x.grad(), tensor({{0., 0.}, {2., 2.}, {0., 0.}, {1., 1.}}));
}

TEST(IndexSelectTest, ThrowsAtTheCallersLine) {
  expect_throws<IndexError>(
      [] { index_select(zeros({2}), 0, full({1}, 2, {.dtype = DType::int64})); },
      "index_select: indices must be in [0, 2); got 2");
}

}  // namespace
}  // namespace ringrad
