#include "ringrad/kernels/index/embedding.h"

#include <algorithm>

#include "ringrad/core/view.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/indexing.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr std::int64_t kNoPadding = -1;

TEST(EmbeddingTest, AgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const DType dtype = kFloats[seed % 4];
    const std::int64_t V = random.integer(1, 20), C = random.integer(1, 20);
    const Tensor weight = random.tensor({V, C}, dtype);
    const Tensor indices = randint(0, V, random.shape(3, 6), random.generator());
    const auto tokens = indices.to_vector<std::int64_t>();
    const Tensor y = embedding(random.strided(weight), random.strided(indices));
    expect_close(y, reference::index_select(weight.to_vector<double>(), {1, V, C}, tokens));
    const Tensor grad = random.tensor(y.shape(), dtype);
    expect_close(embedding_backward(random.strided(grad), indices, V, kNoPadding),
                 reference::index_sum(grad.to_vector<double>(), {1, V, C}, tokens), 64);
  }
}

TEST(EmbeddingTest, GivesPaddingNoGradient) {
  const std::int64_t values[] = {0, 2};
  const Tensor indices = from_values<std::int64_t>(values, {2});
  const Tensor grad = tensor({{1., 2.}, {3., 4.}});
  expect_close(embedding_backward(grad, indices, 3, 2), tensor({{1., 2.}, {0., 0.}, {0., 0.}}));
}

TEST(EmbeddingTest, GivesPaddingNoGradientAmongManyTokens) {
  Random random(1);
  const Tensor indices = randint(0, 4, {40, 50}, random.generator());
  const Tensor grad = random.tensor({40, 50, 8});
  auto want =
      reference::index_sum(grad.to_vector<double>(), {1, 4, 8}, indices.to_vector<std::int64_t>());
  std::fill_n(want.begin() + 2 * 8, 8, 0);
  expect_close(embedding_backward(grad, indices, 4, 2), want, 1024);
}

TEST(EmbeddingTest, WritesEveryElementOfItsDestination) {
  const Tensor indices = zeros({1}, {.dtype = DType::int32});
  const Tensor out = full({3, 2}, 77);
  const std::uint32_t version = out.version();
  embedding_backward(tensor({{1., 2.}}), indices, kNoPadding, out);
  expect_close(out, tensor({{1., 2.}, {0., 0.}, {0., 0.}}));
  EXPECT_NE(out.version(), version);
}

TEST(EmbeddingTest, BackwardDoesNotDependOnTheNumberOfThreads) {
  Random random(1);
  const Tensor indices = randint(0, 100, {64, 128}, random.generator());
  const Tensor grad = random.tensor({64, 128, 32});
  const auto backward = [&](int threads) {
    const Team team(threads);
    return embedding_backward(grad, indices, 100, kNoPadding);
  };
  expect_same_bits(backward(1), backward(2));
}

TEST(EmbeddingTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor weight = zeros({5, 3}), indices = full({2, 2}, 5, {.dtype = DType::int64});
  expect_throws<IndexError>([&] { embedding(weight, indices); },
                            "embedding: indices must be in [0, 5); got 5 at position (0, 0)");
  expect_throws<IndexError>(
      [&] {
        embedding_backward(zeros({2, 2, 3}), indices, 5, kNoPadding);
      },
      "embedding_backward: indices must be in [0, 5); got 5");
  expect_throws<ShapeError>([&] { embedding(zeros({5}), indices); },
                            "weight must be (V, C); got (5,)");
  expect_throws<DTypeError>([&] { embedding(weight, zeros({2})); }, "got float32");
  expect_throws<DTypeError>([&] { embedding(indices, indices); }, "got int64");
  expect_throws<ShapeError>(
      [&] {
        embedding_backward(zeros({2, 3}), indices, 6, kNoPadding);
      },
      "got (2, 3) and (2, 2)");
  expect_throws<ShapeError>(
      [&] {
        embedding_backward(zeros({2, 2, 3}), zeros({2, 2}, {.dtype = DType::int64}), kNoPadding,
                           view::transpose(zeros({3, 5}), 0, 1));
      },
      "grad_weight must be contiguous; got strides (1, 5)");
}

}  // namespace
}  // namespace ringrad::kernels
