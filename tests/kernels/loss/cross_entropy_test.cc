#include "ringrad/kernels/loss/cross_entropy.h"

#include <cmath>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/loss/softmax.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/cross_entropy.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};

Tensor classes(std::initializer_list<std::int64_t> values) {
  return from_values(std::span(values.begin(), values.size()),
                     {static_cast<std::int64_t>(values.size())});
}

// The reference's loss and gradient, for a gradient of ones.
struct Expected {
  std::vector<double> loss, grad_logits;
};

Expected expected(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  const std::int64_t B = targets.numel(), C = logits.shape().back();
  const auto x = logits.to_vector<double>();
  const auto target = targets.to_vector<std::int64_t>();
  const auto weight = options.weight.defined()
                          ? options.weight.to_vector<double>()
                          : std::vector<double>(static_cast<std::size_t>(C), 1);
  Expected result;
  double sum = 0, divisor = 0;
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int64_t t = target[static_cast<std::size_t>(b)];
    if (t == options.ignore_index) {
      result.loss.push_back(0);
      result.grad_logits.insert(result.grad_logits.end(), static_cast<std::size_t>(C), 0);
      continue;
    }
    const std::vector<double> row(x.begin() + b * C, x.begin() + (b + 1) * C);
    const auto q = reference::target_distribution(t, weight, options.label_smoothing);
    result.loss.push_back(reference::cross_entropy(row, q));
    for (const double g : reference::cross_entropy_backward(row, q))
      result.grad_logits.push_back(g);
    sum += result.loss.back();
    divisor += weight[static_cast<std::size_t>(t)];
  }
  if (options.reduction == Reduction::none) return result;
  if (options.reduction == Reduction::sum) divisor = 1;
  result.loss = {sum / divisor};
  if (divisor != 0)  // else no example counts, and there is no gradient
    for (double& g : result.grad_logits) g /= divisor;
  return result;
}

TEST(CrossEntropyTest, IsTheMeanOfMinusTheLogProbabilityOfTheTarget) {
  Random random(1);
  const Tensor logits = random.tensor({4, 6});
  const auto log_p = log_softmax(logits, 1).to_vector<double>();
  const double mean =
      -(log_p[0 * 6 + 3] + log_p[1 * 6 + 0] + log_p[2 * 6 + 5] + log_p[3 * 6 + 3]) / 4;
  expect_close(cross_entropy(logits, classes({3, 0, 5, 3}), {}).loss, {mean});
}

TEST(CrossEntropyTest, OfEqualScoresIsTheLogarithmOfTheNumberOfClasses) {
  expect_close(cross_entropy(zeros({2, 8}), classes({1, 7}), {.label_smoothing = 0.3}).loss,
               {std::log(8.0)});
}

TEST(CrossEntropyTest, DividesAWeightedMeanByTheWeightsOfTheTargets) {
  const Tensor logits = zeros({3, 2});
  const Tensor weight = tensor({1.f, 5.f});
  const auto loss = cross_entropy(logits, classes({0, 1, -100}), {.weight = weight}).loss;
  expect_close(loss, {std::log(2.0)});  // (1 + 5) log 2 / (1 + 5): the ignored example has no part
}

// Loss and gradient of a random batch with random options.
void expect_agreement(std::uint64_t seed, std::int64_t most_examples, std::int64_t fewest_classes,
                      std::int64_t most_classes) {
  Random random(seed);
  const Team team(1 + static_cast<int>(seed % 2));
  const DType dtype = kFloats[seed % 4];
  const std::int64_t B = random.integer(1, most_examples);
  const std::int64_t C = random.integer(fewest_classes, most_classes);
  const Tensor logits = random.tensor({B, C}, -3, 3, dtype);
  const Tensor targets = randint(0, C, {B}, random.generator());
  CrossEntropyOptions options{.reduction = kReductions[seed % 3]};
  if (random.chance(0.5)) options.weight = random.tensor({C}, 0.1, 2, dtype);
  if (random.chance(0.5)) options.label_smoothing = random.real(0, 1);
  if (random.chance(0.5)) options.ignore_index = random.integer(0, C);
  SCOPED_TRACE(concat(logits.shape(), ' ', dtype, " smoothing ", options.label_smoothing));

  const auto [loss, statistics] = cross_entropy(logits, targets, options);
  const Expected want = expected(logits, targets, options);
  const double slack = 64 * std::sqrt(static_cast<double>(C + B));
  expect_close(loss, want.loss, slack);
  const Tensor grad = cross_entropy_backward(ones(loss.shape(), {.dtype = dtype}), logits, targets,
                                             statistics, options);
  expect_close(grad, want.grad_logits, slack);

  const auto [total, distribution] = cross_entropy_targets(logits, targets, options);
  EXPECT_EQ(distribution.shape(), logits.shape());
  EXPECT_EQ(total.shape(), Shape({B, 1}));
}

TEST(CrossEntropyTest, AgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) expect_agreement(seed, 40, 1, 20);
  for (std::uint64_t seed = 60; seed < 120; ++seed) expect_agreement(seed, 40, 60, 150);
}

TEST(CrossEntropyTest, AgreesWithReferenceForManyClasses) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) expect_agreement(seed, 9, 900, 1100);
  for (std::uint64_t seed = 12; seed < 24; ++seed) expect_agreement(seed, 4, 2000, 5000);
}

TEST(CrossEntropyTest, TakesScoresThatBeginAnywhere) {
  Random random(5);
  const Tensor memory = random.tensor({3 * 70 + 1}), targets = classes({0, 69, 2});
  const Tensor logits = view::as_strided(memory, {3, 70}, {70, 1}, 1);
  const auto [loss, statistics] = cross_entropy(logits, targets, {});
  const auto same = cross_entropy(clone(logits), targets, {});
  expect_same_bits(loss, same.loss);
  expect_same_bits(cross_entropy_backward(ones({}), logits, targets, statistics, {}),
                   cross_entropy_backward(ones({}), clone(logits), targets, same.statistics, {}));
}

TEST(CrossEntropyTest, WeighsEachExampleByItsGradient) {
  Random random(2);
  const Tensor logits = random.tensor({3, 5}), targets = classes({0, 4, 2});
  const CrossEntropyOptions none{.reduction = Reduction::none};
  const auto statistics = cross_entropy(logits, targets, none).statistics;
  const auto with = [&](const Tensor& grad) {
    return cross_entropy_backward(grad, logits, targets, statistics, none);
  };
  const Tensor plain = with(tensor({1.f, 1.f, 1.f})), weighted = with(tensor({2.f, 0.f, -1.f}));
  const auto row = [](const Tensor& x, int b) { return view::select(x, 0, b).to_vector<double>(); };
  for (std::size_t c = 0; c < 5; ++c) {
    EXPECT_FLOAT_EQ(row(weighted, 0)[c], 2 * row(plain, 0)[c]);
    EXPECT_EQ(row(weighted, 1)[c], 0);
    EXPECT_FLOAT_EQ(row(weighted, 2)[c], -row(plain, 2)[c]);
  }
}

TEST(CrossEntropyTest, AcceptsOneExample) {
  Random random(3);
  const Tensor logits = random.tensor({7});
  const Tensor target = scalar_tensor(4, {.dtype = DType::int64});
  const auto batch = cross_entropy(view::unsqueeze(logits, 0), classes({4}), {});
  for (const Reduction reduction : kReductions) {
    const CrossEntropyOptions options{.reduction = reduction};
    const auto [loss, statistics] = cross_entropy(logits, target, options);
    expect_same_bits(loss, batch.loss);
    EXPECT_EQ(cross_entropy_backward(ones({}), logits, target, statistics, options).shape(),
              Shape({7}));
  }
}

TEST(CrossEntropyTest, DoesNotDependOnStridesOrTheDtypeOfTargets) {
  Random random(4);
  const Tensor logits = random.tensor({9, 70}), targets = randint(0, 70, {9}, random.generator());
  const Tensor narrow = cast(targets, DType::int32);
  const auto a = cross_entropy(logits, targets, {});
  const auto b = cross_entropy(random.strided(logits), random.strided(narrow), {});
  expect_same_bits(a.loss, b.loss);
  expect_same_bits(cross_entropy_backward(ones({}), logits, targets, a.statistics, {}),
                   cross_entropy_backward(ones({}), random.strided(logits), random.strided(narrow),
                                          b.statistics, {}));
}

TEST(CrossEntropyTest, GivesIgnoredExamplesNoGradientWhateverTheirScores) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = tensor({{nan, nan}, {0, 0}});
  const auto [loss, statistics] = cross_entropy(logits, classes({-100, 1}), {});
  expect_close(loss, {std::log(2.0)});
  expect_close(cross_entropy_backward(ones({}), logits, classes({-100, 1}), statistics, {}),
               {0, 0, 0.5, -0.5});
}

TEST(CrossEntropyTest, IsNanWithoutGradientWhereNothingCounts) {
  const Tensor logits = zeros({2, 3}), targets = classes({-100, -100});
  const auto [loss, statistics] = cross_entropy(logits, targets, {});
  EXPECT_TRUE(std::isnan(loss.item()));
  expect_close(cross_entropy_backward(ones({}), logits, targets, statistics, {}), zeros({2, 3}));
}

TEST(CrossEntropyTest, StaysExactForScoresFarApart) {
  const Tensor logits = tensor({{2000., 0., -2000.}});
  expect_close(cross_entropy(logits, classes({0}), {}).loss, {0});
  expect_close(cross_entropy(logits, classes({2}), {}).loss, {4000});
}

TEST(CrossEntropyTest, NamesTheTargetThatIsNoClass) {
  expect_throws<IndexError>(
      [&] {
        cross_entropy(zeros({3, 10}), classes({1, 10, 2}), {});
      },
      "cross_entropy: targets must be in [0, 10) or be -100; got 10 at "
      "position (1,)");
  expect_throws<IndexError>([&] { cross_entropy(zeros({1, 10}), classes({-1}), {}); }, "got -1");
  EXPECT_NO_THROW(cross_entropy(zeros({3, 10}), classes({0, 9, -100}), {}));
}

TEST(CrossEntropyTest, ThrowsForArgumentsThatDoNotFit) {
  const Tensor logits = zeros({2, 3}), targets = classes({0, 1});
  expect_throws<ShapeError>([&] { cross_entropy(logits, classes({0}), {}); },
                            "got targets (1,) and logits (2, 3)");
  expect_throws<ShapeError>([&] { cross_entropy(zeros({2, 3, 4}), targets, {}); }, "(2, 3, 4)");
  expect_throws<ShapeError>([&] { cross_entropy(zeros({2, 0}), targets, {}); }, "class");
  expect_throws<DTypeError>([&] { cross_entropy(logits, zeros({2}), {}); }, "got float32");
  expect_throws<DTypeError>([&] { cross_entropy(classes({1, 2}), targets, {}); }, "got int64");
  expect_throws<ShapeError>([&] { cross_entropy(logits, targets, {.weight = ones({2})}); },
                            "got weight (2,) and logits (2, 3)");
  expect_throws<DTypeError>(
      [&] { cross_entropy(logits, targets, {.weight = ones({3}, {.dtype = DType::float64})}); },
      "float32 and float64");
  expect_throws<ValueError>([&] { cross_entropy(logits, targets, {.label_smoothing = 1.5}); },
                            "got 1.5");
  expect_throws<DeviceError>(
      [&] {
        cross_entropy(zeros({2, 3}, {.device = "cpu:1"}), targets, {});
      },
      "cpu:1");
}

}  // namespace
}  // namespace ringrad::kernels
