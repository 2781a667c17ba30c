#include "ringrad/autograd/index/embedding.h"

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

TEST(EmbeddingTest, GradientsAgreeWithDifferences) {
  Random random(1);
  const Tensor weight = random.tensor({5, 3}, DType::float64).set_requires_grad();
  const Tensor indices = randint(0, 5, {2, 4}, random.generator());
  const auto f = [&](const std::vector<Tensor>& in) { return embedding(in[0], indices); };
  EXPECT_EQ(gradient_check(f, {weight}), "");
  EXPECT_EQ(gradient_gradient_check(f, {weight}), "");
}

TEST(EmbeddingTest, LooksPaddingUpButGivesItNoGradient) {
  const Tensor weight = tensor({{1., 2.}, {3., 4.}, {5., 6.}}).set_requires_grad();
  const std::int32_t tokens[] = {0, 0, 0, 2};
  const Tensor indices = from_values<std::int32_t>(tokens, {2, 2});
  const Tensor y = embedding(weight, indices, 0);
  EXPECT_EQ(y.shape(), Shape({2, 2, 2}));
  expect_close(y, {1, 2, 1, 2, 1, 2, 5, 6});
  sum(y).backward();
  expect_close(weight.grad(), tensor({{0., 0.}, {0., 0.}, {1., 1.}}));
}

TEST(EmbeddingTest, SecondGradientLeavesPaddingOut) {
  Random random(2);
  const Tensor weight = random.tensor({4, 2}, DType::float64).set_requires_grad();
  const Tensor indices = randint(0, 4, {9}, random.generator());
  // The gradient with respect to the incoming gradient is the look-up with zeros at the padding:
  // check it by differences of the gradient itself.
  const Tensor grad = random.tensor({9, 2}, DType::float64).set_requires_grad();
  const auto f = [&](const std::vector<Tensor>& in) {
    EnableGradGuard guard;  // the differences are taken without recording
    return ringrad::grad(std::vector{embedding(weight, indices, 1)}, std::vector{weight},
                         std::vector{in[0]}, {.create_graph = true})[0];
  };
  EXPECT_EQ(gradient_check(f, {grad}), "");
}

TEST(EmbeddingTest, AddsToAnEarlierGradient) {
  const Tensor weight = zeros({3, 1}).set_requires_grad();
  const Tensor indices = full({2}, 1, {.dtype = DType::int64});
  for (int i = 0; i < 2; ++i) sum(embedding(weight, indices)).backward();
  expect_close(weight.grad(), {0, 4, 0});
}

TEST(EmbeddingTest, ReplacesAGradientThatIsNotContiguous) {
  const Tensor weight = view::transpose(zeros({2, 3}), 0, 1).set_requires_grad();
  const Tensor first = zeros({1}, {.dtype = DType::int64}), grad = tensor({{1., 2.}});
  embedding(weight, first).backward(grad);
  leaf_of(weight)->clear();
  embedding(weight, first).backward(grad);
  expect_close(weight.grad(), tensor({{1., 2.}, {0., 0.}, {0., 0.}}));
}

TEST(EmbeddingTest, ThrowsAtTheCallersLine) {
  const Tensor weight = zeros({3, 2}), indices = full({1}, 3, {.dtype = DType::int64});
  expect_throws<IndexError>([&] { embedding(weight, indices); },
                            "embedding: indices must be in [0, 3); got 3 at position (0,)");
  expect_throws<IndexError>([&] { embedding(weight, zeros({1}, {.dtype = DType::int64}), 3); },
                            "padding_index must be a row of weight; got 3 for weight (3, 2)");
}

}  // namespace
}  // namespace ringrad
