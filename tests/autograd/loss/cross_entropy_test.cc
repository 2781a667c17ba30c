#include "ringrad/autograd/loss/cross_entropy.h"

#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/index/gather.h"
#include "ringrad/autograd/loss/softmax.h"
#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

TEST(CrossEntropyTest, GradientsAgreeWithDifferencesForEveryOption) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    const std::int64_t C = seed % 6 == 0 ? 70 : 5;
    CrossEntropyOptions options{.reduction = kReductions[seed % 3]};
    if (seed & 1) options.weight = random.tensor({C}, 0.2, 2, DType::float64);
    if (seed & 2) options.label_smoothing = 0.2;
    if (seed & 4) options.ignore_index = 1;
    const Tensor targets = randint(0, C, {4}, random.generator());
    const Tensor logits = random.tensor({4, C}, DType::float64).set_requires_grad();
    const auto f = [&](const std::vector<Tensor>& in) {
      return cross_entropy(in[0], targets, options);
    };
    EXPECT_EQ(gradient_check(f, {logits}), "");
    EXPECT_EQ(gradient_gradient_check(f, {logits}), "");
  }
}

TEST(CrossEntropyTest, GradientsOfOneExampleAgreeWithDifferences) {
  Random random(1);
  const Tensor target = scalar_tensor(2, {.dtype = DType::int32});
  const Tensor logits = random.tensor({5}, DType::float64).set_requires_grad();
  for (const Reduction reduction : kReductions) {
    const auto f = [&](const std::vector<Tensor>& in) {
      return cross_entropy(in[0], target, {.label_smoothing = 0.1, .reduction = reduction});
    };
    EXPECT_EQ(gradient_check(f, {logits}), "");
    EXPECT_EQ(gradient_gradient_check(f, {logits}), "");
  }
}

TEST(CrossEntropyTest, EqualsItsCompositionOfSmallerOperators) {
  Random random(2);
  const Tensor targets = randint(0, 9, {6}, random.generator());
  const Tensor fused = random.tensor({6, 9}).set_requires_grad();
  const Tensor composed = fused.detach().set_requires_grad();
  const Tensor loss = cross_entropy(fused, targets);
  const Tensor log_p = gather(log_softmax(composed, 1), 1, unsqueeze(targets, 1));
  const Tensor expected = -mean(log_p);
  expect_close(loss, expected);
  loss.backward();
  expected.backward();
  expect_close(fused.grad(), composed.grad());
}

TEST(CrossEntropyTest, ImagesAreRowsOfPixels) {
  Random random(5);
  const Tensor targets = randint(0, 4, {2, 3, 5}, random.generator());
  const Tensor flat_targets = reshape(targets, {30});
  for (const Reduction reduction : kReductions) {
    const Tensor image = random.tensor({2, 4, 3, 5}).set_requires_grad();
    const Tensor last = to_layout(image.detach(), Layout::channels_last).set_requires_grad();
    const Tensor rows = clone(reshape(permute(image.detach(), {0, 2, 3, 1}), {30, 4}));
    rows.set_requires_grad();
    const CrossEntropyOptions options{.label_smoothing = 0.1, .reduction = reduction};
    const Tensor loss = cross_entropy(image, targets, options);
    EXPECT_EQ(loss.shape(), reduction == Reduction::none ? targets.shape() : Shape{});
    expect_close(cross_entropy(last, targets, options), loss);
    sum(loss).backward();
    sum(cross_entropy(last, targets, options)).backward();
    sum(cross_entropy(rows, flat_targets, options)).backward();
    expect_close(last.grad(), image.grad());
    expect_close(reshape(permute(image.grad(), {0, 2, 3, 1}), {30, 4}), rows.grad());
  }
}

TEST(NLLLossTest, OfLogSoftmaxIsCrossEntropy) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed);
    const Reduction reduction = kReductions[seed % 3];
    Tensor weight;
    if (seed & 1) weight = random.tensor({5}, 0.2, 2, DType::float64);
    const std::int64_t ignored = seed & 2 ? 1 : -100;
    const Tensor targets = randint(0, 5, seed & 4 ? Shape{4, 2} : Shape{4}, random.generator());
    const Tensor x = random.tensor(seed & 4 ? Shape{4, 5, 2} : Shape{4, 5}, DType::float64);
    x.set_requires_grad();
    const auto f = [&](const std::vector<Tensor>& in) {
      return nll_loss(log_softmax(in[0], 1), targets, {weight, ignored, reduction});
    };
    expect_close(f({x}), cross_entropy(x, targets, {weight, ignored, 0, reduction}));
    EXPECT_EQ(gradient_check(f, {x}), "");
    EXPECT_EQ(gradient_gradient_check(f, {x}), "");
  }
}

TEST(NLLLossTest, IgnoresInfinityAndIsNanWithoutTargets) {
  const Tensor x = full({2, 3}, -INFINITY), targets = full({2}, -1, {.dtype = DType::int32});
  expect_close(nll_loss(x, targets, {.ignore_index = -1, .reduction = Reduction::sum}), zeros({}));
  EXPECT_TRUE(std::isnan(nll_loss(x, targets, {.ignore_index = -1}).item<double>()));
  const Tensor halves = full({2, 3}, -2, {.dtype = DType::bfloat16});
  EXPECT_EQ(nll_loss(halves, zeros({2}, {.dtype = DType::int64})).dtype(), DType::bfloat16);
}

TEST(NLLLossTest, SumsOfFloat16MayLeaveItsRange) {
  const Tensor x = full({8192, 2}, -10, {.dtype = DType::float16}).set_requires_grad();
  const Tensor weight = tensor({10., 10.}, DType::float16);
  const Tensor loss = nll_loss(x, zeros({8192}, {.dtype = DType::int64}), {.weight = weight});
  expect_close(loss, {10});
  EXPECT_EQ(loss.dtype(), DType::float16);
  (loss * 8192).backward();
  expect_close(select(x.grad(), 0, 8191), {-1, 0});
}

TEST(CrossEntropyTest, GradientsOfEachExampleSumToZero) {
  Random random(3);
  const Tensor targets = randint(0, 100, {8}, random.generator());
  const Tensor logits = random.tensor({8, 100}).set_requires_grad();
  cross_entropy(logits, targets).backward();
  expect_close(sum(logits.grad(), {1}), zeros({8}));
}

TEST(CrossEntropyTest, IgnoredRowsHaveNoGradientEvenIfThatOfTheLossIsInfinite) {
  const Tensor x = tensor({{1., 2.}, {3., 5.}}).set_requires_grad();
  for (const bool recorded : {false, true}) {
    const Tensor loss =
        cross_entropy(x, tensor({0, 0}), {.ignore_index = 0, .reduction = Reduction::sum});
    const Tensor gradient = grad(loss, x, full({}, INFINITY), {.create_graph = recorded});
    expect_close(gradient, {0, 0, 0, 0});
  }
}

TEST(CrossEntropyTest, NoticesThatWhatItSavedHasChanged) {
  const auto backward_after = [](auto change) {
    const Tensor logits = zeros({2, 3}).set_requires_grad(), weight = ones({3});
    const Tensor targets = zeros({2}, {.dtype = DType::int64});
    const Tensor loss = cross_entropy(logits, targets, {.weight = weight});
    {
      NoGradGuard guard;
      change(logits, targets, weight);
    }
    loss.backward();
  };
  const char* text = "backward of cross_entropy: the tensor of shape";
  using T = const Tensor&;
  expect_throws<AutogradError>([&] { backward_after([](T x, T, T) { add_(x, 1); }); }, text);
  expect_throws<AutogradError>([&] { backward_after([](T, T t, T) { add_(t, 1); }); }, text);
  expect_throws<AutogradError>([&] { backward_after([](T, T, T w) { add_(w, 1); }); }, text);
}

// nll_loss is composed of operators, and gives its weight a gradient.
TEST(CrossEntropyTest, OnlyNllLossTakesAWeightThatRequiresAGradient) {
  const Tensor x = zeros({2, 2}), w = tensor({1.f, 3.f}).set_requires_grad();
  const Tensor targets = tensor({0, 1});
  expect_throws<AutogradError>([&] { cross_entropy(x, targets, {.weight = w}); },
                               "cross_entropy: weight has no derivative here");
  cross_entropy(x, targets, {.weight = w.detach()});
  nll_loss(tensor({{-1.f, 0.f}, {0.f, -2.f}}), targets, {.weight = w, .reduction = Reduction::sum})
      .backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(CrossEntropyTest, ThrowsAtTheCallersLine) {
  const Tensor targets = full({2}, 3, {.dtype = DType::int64});
  expect_throws<IndexError>(
      [&] {
        cross_entropy(zeros({2, 3}), targets);
      },
      "targets must be in [0, 3) or be -100; got 3 at position (0,)");
  expect_throws<IndexError>(
      [&] {
        nll_loss(zeros({2, 3}), targets);
      },
      "nll_loss: targets must be in [0, 3) or be -100; got 3 at position (0,)");
  expect_throws<ShapeError>(
      [&] {
        cross_entropy(zeros({2, 3, 4}), targets);
      },
      "cross_entropy: targets must be (2, 4) for scores (2, 3, 4); got (2,)");
  expect_throws<ShapeError>(
      [&] {
        nll_loss(zeros({3, 3}), targets);
      },
      "nll_loss: targets must hold one class per row");
}

}  // namespace
}  // namespace ringrad
