#include "ringrad/autograd/loss/linear_cross_entropy.h"

#include <cmath>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/base/allocator.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

TEST(LinearCrossEntropyTest, GradientsAgreeWithDifferencesForEveryOption) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    CrossEntropyOptions options{.reduction = kReductions[seed % 3]};
    if (seed & 1) options.weight = random.tensor({5}, 0.2, 2, DType::float64);
    if (seed & 2) options.label_smoothing = 0.2;
    if (seed & 4) options.ignore_index = 1;
    const Tensor targets = randint(0, 5, {4}, random.generator());
    const auto leaf = [&](const Shape& shape) {
      return random.tensor(shape, DType::float64).set_requires_grad();
    };
    const std::vector<Tensor> inputs{leaf({4, 3}), leaf({5, 3}), leaf({5})};
    const auto f = [&](const std::vector<Tensor>& in) {
      return linear_cross_entropy(in[0], in[1], targets, in[2], options);
    };
    EXPECT_EQ(gradient_check(f, inputs), "");
    EXPECT_EQ(gradient_gradient_check(f, inputs), "");
  }
}

// 130 rows of 4 features are three chunks with 90 classes, and one with 3.
TEST(LinearCrossEntropyTest, ManyChunksEqualTheTwoOperators) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
    for (const std::int64_t V : {3, 90})
      for (const Reduction reduction : kReductions)
        for (const bool biased : {false, true}) {
          SCOPED_TRACE(concat(dtype, ' ', V, " classes, bias ", biased));
          Random random(9);
          const Tensor targets = randint(0, V, {130}, random.generator());
          std::vector<Tensor> inputs{random.strided(random.tensor({130, 4}, dtype)),
                                     random.tensor({V, 4}, dtype)};
          if (biased) inputs.push_back(random.tensor({V}, dtype));
          for (const Tensor& input : inputs) input.set_requires_grad();
          const Tensor bias = biased ? inputs[2] : Tensor();
          const CrossEntropyOptions options{
              .ignore_index = 2, .label_smoothing = 0.1, .reduction = reduction};
          const Tensor fused = linear_cross_entropy(inputs[0], inputs[1], targets, bias, options);
          const Tensor scores = linear(inputs[0], inputs[1], bias);
          const Tensor composed = cross_entropy(scores, targets, options);
          EXPECT_EQ(fused.dtype(), dtype);
          expect_close(fused, composed, 256);
          const Tensor weights = random.tensor(fused.shape(), 0.5, 1, dtype);
          const auto grads = grad({&fused, 1}, inputs, {&weights, 1});
          const auto expected = grad({&composed, 1}, inputs, {&weights, 1});
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            EXPECT_EQ(grads[i].dtype(), dtype);
            expect_close(grads[i], expected[i], dtype == DType::bfloat16 ? 64 : 1024);
          }
        }
}

TEST(LinearCrossEntropyTest, OnlyWantedGradientsAreComputed) {
  Random random(4);
  const Tensor targets = randint(0, 5, {4}, random.generator());
  for (const bool of_x : {false, true}) {
    const Tensor x = random.tensor({4, 3}).set_requires_grad(of_x);
    const Tensor weight = random.tensor({5, 3}).set_requires_grad(!of_x);
    linear_cross_entropy(x, weight, targets).backward();
    EXPECT_EQ(x.grad().defined(), of_x);
    EXPECT_EQ(weight.grad().defined(), !of_x);
  }
  EXPECT_FALSE(linear_cross_entropy(ones({4, 3}), ones({5, 3}), targets).requires_grad());
}

// 512 rows of 8192 scores would take 16 MiB, and as much again for their gradient. Chunks of 64
// rows take 2 MiB each for scores and gradients; x, the weight's gradient and the sums take less.
TEST(LinearCrossEntropyTest, NeverHoldsAllScores) {
  if (default_device().is_cuda()) GTEST_SKIP() << "counts the memory of CPUs";
  Random random(5);
  const std::int64_t N = 512, D = 32, V = 8192;
  const Tensor x = random.tensor({N, D}).set_requires_grad();
  const Tensor weight = random.tensor({V, D}).set_requires_grad();
  const Tensor targets = randint(0, V, {N}, random.generator());
  const auto peak_of = [&](auto step) {
    reset_peak_stats();
    const std::int64_t before = allocator_stats().allocated_bytes;
    step();
    return allocator_stats().peak_allocated_bytes - before;
  };
  const std::int64_t scores = N * V * 4;
  for (const Reduction reduction : kReductions) {
    const std::int64_t fused = peak_of([&] {
      sum(linear_cross_entropy(x, weight, targets, {}, {.reduction = reduction})).backward();
    });
    const std::int64_t composed = peak_of([&] {
      sum(cross_entropy(linear(x, weight), targets, {.reduction = reduction})).backward();
    });
    EXPECT_LT(fused, scores / 2);
    EXPECT_GT(composed, 3 * scores / 2);
  }
}

TEST(LinearCrossEntropyTest, AutocastGivesAFloat32LossAndGradientsOfTheInputsDtype) {
  Random random(6);
  const Tensor targets = randint(0, 9, {70}, random.generator());
  const Tensor x = random.tensor({70, 8}).set_requires_grad();
  const Tensor weight = random.tensor({9, 8}).set_requires_grad();
  const Tensor exact = linear_cross_entropy(x, weight, targets);
  const Autocast mixed(DType::bfloat16);
  const Tensor loss = linear_cross_entropy(x, weight, targets);
  EXPECT_EQ(loss.dtype(), DType::float32);
  EXPECT_NEAR(loss.item<double>(), exact.item<double>(), 0.02);
  loss.backward();
  EXPECT_EQ(weight.grad().dtype(), DType::float32);
}

TEST(LinearCrossEntropyTest, IgnoredRowsAndNoRowsGiveZeroGradients) {
  const Tensor weight = ones({5, 3}).set_requires_grad();
  const Tensor ignored = full({4}, -100, {.dtype = DType::int64});
  const Tensor loss = linear_cross_entropy(ones({4, 3}), weight, ignored);
  EXPECT_TRUE(std::isnan(loss.item<double>()));
  expect_close(grad(loss, weight), zeros({5, 3}));
  const Tensor none =
      linear_cross_entropy(zeros({0, 3}), weight, zeros({0}, {.dtype = DType::int64}), {},
                           {.reduction = Reduction::sum});
  expect_close(none, zeros({}));
  expect_close(grad(none, weight), zeros({5, 3}));
}

TEST(LinearCrossEntropyTest, RefusesAClassWeightThatRequiresAGradient) {
  expect_throws<AutogradError>(
      [] {
        linear_cross_entropy(zeros({1, 2}), zeros({3, 2}), tensor({0}), {},
                             {.weight = ones({3}).set_requires_grad()});
      },
      "linear_cross_entropy: weight has no derivative here");
}

TEST(LinearCrossEntropyTest, ThrowsAtTheCallersLine) {
  const Tensor x = zeros({2, 3}), weight = zeros({5, 3});
  const Tensor targets = full({2}, 5, {.dtype = DType::int64});
  expect_throws<IndexError>([&] { linear_cross_entropy(x, weight, targets); },
                            "linear_cross_entropy: targets must be in [0, 5) or be -100; got 5");
  expect_throws<ShapeError>(
      [&] {
        linear_cross_entropy(x, zeros({5, 4}), targets);
      },
      "x must be (N, D) and linear_weight (V, D), with a class; got (2, 3)");
  expect_throws<ShapeError>([&] { linear_cross_entropy(x, weight, zeros({3})); },
                            "targets must hold one class per row of x; got targets (3,)");
  expect_throws<ShapeError>([&] { linear_cross_entropy(x, weight, targets, zeros({4})); },
                            "must hold one number per class; got (4,) for 5 classes");
  expect_throws<ValueError>(
      [&] { linear_cross_entropy(x, weight, targets, {}, {.label_smoothing = 2}); },
      "linear_cross_entropy: label_smoothing must be in [0, 1]; got 2");
}

}  // namespace
}  // namespace ringrad
