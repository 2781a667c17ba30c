#include "ringrad/kernels/optimizer/optimizer_step.h"

#include <array>
#include <cmath>
#include <limits>

#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/optimizer_step.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::contiguous_copy;
using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr int kSteps = 5;
constexpr double kScale = 0.75;  // exact in every dtype

// Gradients of each step, multiplied by kScale for the reference, which has no scale factor.
std::vector<double> scaled(const Tensor& gradients) {
  auto values = gradients.to_vector<double>();
  for (double& value : values) value *= kScale;
  return values;
}

// Several steps of fresh random gradients on `n` parameters, by the kernel and by the reference.
// The 16-bit dtypes round the parameters after each step, so the reference continues from the
// kernel's.
template <class Reference, class Step>
void expect_steps(Random& random, DType dtype, std::int64_t n, const Reference& initial,
                  Step step) {
  Tensor parameters = random.tensor({n}, dtype);
  std::vector<Reference> references(static_cast<std::size_t>(n), initial);
  for (int k = 0; k < kSteps; ++k) {
    const Tensor gradients = random.tensor({n}, dtype);
    const auto g = scaled(gradients);
    auto want = parameters.to_vector<double>();
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = references[i].step(want[i], g[i]);
    step(k, parameters, gradients);
    expect_close(parameters, want, 64);
  }
}

TEST(OptimizerStepTest, SgdAgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 48; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const DType dtype = kFloats[seed % 4];
    const std::int64_t n = seed % 12 == 0 ? 70001 : random.integer(1, 100);
    reference::Sgd sgd{.learning_rate = 0.1};
    if (random.chance(0.5)) sgd.weight_decay = 0.01;
    if (random.chance(0.7)) sgd.momentum = 0.9;
    if (sgd.momentum != 0 && random.chance(0.5)) sgd.nesterov = true;
    if (!sgd.nesterov && random.chance(0.5)) sgd.dampening = 0.3;
    // The buffer starts as NaN: the first step must not read it.
    const Tensor buffer = full({n}, std::nan(""), {.dtype = optimizer_state_dtype(dtype)});
    expect_steps(random, dtype, n, sgd, [&](int k, const Tensor& p, const Tensor& g) {
      sgd_step(p, g, sgd.momentum != 0 ? buffer : Tensor(),
               {.learning_rate = sgd.learning_rate,
                .momentum = sgd.momentum,
                .dampening = sgd.dampening,
                .weight_decay = sgd.weight_decay,
                .nesterov = sgd.nesterov,
                .first = k == 0,
                .grad_scale = kScale});
    });
  }
}

TEST(OptimizerStepTest, AdamAgreesWithReference) {
  for (std::uint64_t seed = 0; seed < 48; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const DType dtype = kFloats[seed % 4];
    const std::int64_t n = seed % 12 == 0 ? 70001 : random.integer(1, 100);
    reference::Adam adam{.learning_rate = 0.02, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6};
    if (random.chance(0.5)) adam.weight_decay = 0.1;
    adam.decoupled = random.chance(0.5);
    const Options state{.dtype = optimizer_state_dtype(dtype)};
    const Tensor m = zeros({n}, state), v = zeros({n}, state);
    expect_steps(random, dtype, n, adam, [&](int k, const Tensor& p, const Tensor& g) {
      adam_step(p, g, m, v,
                {.learning_rate = adam.learning_rate,
                 .beta1 = adam.beta1,
                 .beta2 = adam.beta2,
                 .eps = adam.eps,
                 .weight_decay = adam.weight_decay,
                 .decoupled = adam.decoupled,
                 .step = k + 1,
                 .grad_scale = kScale});
    });
  }
}

// Formulas of RMSprop, Adagrad and Lion; sizes cross a chunk of a thread, and tails of vectors.
// With `whole` gradients are whole numbers.
template <class Step, class Reference, class Run>
void expect_formula(const Step& step, const Reference& reference, int num_states, Run run,
                    bool whole = false) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    Random random(seed);
    const Team team(1 + static_cast<int>(seed % 2));
    const DType dtype = kFloats[seed % 4];
    const std::int64_t n = seed < 4 ? 70001 : random.integer(0, 100);
    const Options state{.dtype = optimizer_state_dtype(dtype)};
    const Tensor a = zeros({n}, state), b = num_states > 1 ? zeros({n}, state) : Tensor();
    const Tensor parameters = random.tensor({n}, dtype);
    std::vector<std::array<double, 2>> states(static_cast<std::size_t>(n));
    for (int k = 0; k < kSteps; ++k) {
      const Tensor gradients = random.tensor({n}, dtype);
      if (whole) copy_(gradients, randint(-8, 9, {n}, random.generator()));
      const auto g = scaled(gradients);
      auto want = parameters.to_vector<double>();
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = reference(want[i], g[i], states[i]);
      run(parameters, gradients, a, b, [&] { return step; });
      expect_close(parameters, want, 64);
    }
  }
}

TEST(OptimizerStepTest, RmspropAgreesWithReference) {
  for (const double momentum : {0., 0.9}) {
    const RmspropStep step{.learning_rate = 0.02,
                           .alpha = 0.9,
                           .eps = 1e-3,
                           .weight_decay = 0.1,
                           .momentum = momentum,
                           .grad_scale = kScale};
    expect_formula(
        step,
        [&](double p, double g, std::array<double, 2>& state) {
          g += step.weight_decay * p;
          state[0] = step.alpha * state[0] + (1 - step.alpha) * g * g;
          state[1] = momentum * state[1] + g / (std::sqrt(state[0]) + step.eps);
          return p - step.learning_rate * state[1];
        },
        momentum == 0 ? 1 : 2, [](auto&&... arguments) { replayable_rmsprop_step(arguments...); });
  }
}

TEST(OptimizerStepTest, AdagradAgreesWithReference) {
  const AdagradStep step{
      .learning_rate = 0.1, .eps = 1e-3, .weight_decay = 0.1, .grad_scale = kScale};
  expect_formula(
      step,
      [&](double p, double g, std::array<double, 2>& state) {
        g += step.weight_decay * p;
        state[0] += g * g;
        return p - step.learning_rate * g / (std::sqrt(state[0]) + step.eps);
      },
      1,
      [](const Tensor& p, const Tensor& g, const Tensor& a, const Tensor&, const auto& made) {
        replayable_adagrad_step(p, g, a, made);
      });
}

// All numbers are exact: a sign near zero would depend on rounding.
TEST(OptimizerStepTest, LionAgreesWithReference) {
  const LionStep step{.learning_rate = 0.01,
                      .beta1 = 0.5,
                      .beta2 = 0.75,
                      .weight_decay = 0.1,
                      .grad_scale = kScale};
  expect_formula(
      step,
      [&](double p, double g, std::array<double, 2>& state) {
        const double mixed = step.beta1 * state[0] + (1 - step.beta1) * g;
        state[0] = step.beta2 * state[0] + (1 - step.beta2) * g;
        const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
        return p - step.learning_rate * (sign + step.weight_decay * p);
      },
      1,
      [](const Tensor& p, const Tensor& g, const Tensor& a, const Tensor&, const auto& made) {
        replayable_lion_step(p, g, a, made);
      },
      true);
  const Tensor p = tensor({1., 2.}), m = zeros({2});
  replayable_lion_step(p, tensor({0., NAN}), m, [] { return LionStep{.learning_rate = 0.5}; });
  EXPECT_EQ(p.to_vector<float>()[0], 1);
  EXPECT_TRUE(std::isnan(p.to_vector<float>()[1]));
}

// A slice of an arena may begin anywhere: a vector of elements may not be aligned there.
TEST(OptimizerStepTest, StepsASliceAsItStepsAWhole) {
  Random random(4);
  for (const DType dtype : kFloats) {
    const std::int64_t n = 1003;
    const Options state{.dtype = optimizer_state_dtype(dtype)};
    const auto part = [](const Tensor& x) { return view::slice(x, 0, 1, x.numel() - 2); };
    const Tensor p = random.tensor({n}, dtype), g = random.tensor({n}, dtype);
    const Tensor m = zeros({n}, state), v = zeros({n}, state);
    const Tensor before = contiguous_copy(p), q = contiguous_copy(part(p)),
                 h = contiguous_copy(part(g));
    const Options small{.dtype = state.dtype};
    adam_step(q, h, zeros({n - 3}, small), zeros({n - 3}, small), {});
    adam_step(part(p), part(g), part(m), part(v), {});
    expect_same_bits(part(p), q);
    expect_same_bits(view::slice(p, 0, 0, 1), view::slice(before, 0, 0, 1));
    expect_same_bits(view::slice(p, 0, n - 2, n), view::slice(before, 0, n - 2, n));
  }
}

TEST(OptimizerStepTest, MarksWhatItChanges) {
  const Tensor p = ones({3}), g = ones({3}), m = zeros({3}), v = zeros({3});
  const auto versions = [&] { return std::vector{p.version(), m.version(), v.version()}; };
  const auto before = versions();
  const std::uint32_t gradient_version = g.version();
  adam_step(p, g, m, v, {});
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NE(versions()[i], before[i]);
  EXPECT_EQ(g.version(), gradient_version);
}

TEST(OptimizerStepTest, NormIsThatOfTheConcatenation) {
  EXPECT_DOUBLE_EQ(l2_norm(tensor({3.f, 4.f})), 5);
  EXPECT_DOUBLE_EQ(sum_of_squares(zeros({0})), 0);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const Tensor x = random.tensor({random.integer(1, 60000)}, kFloats[seed % 4]);
    long double sum = 0;
    for (const double value : x.to_vector<double>()) sum += value * value;
    EXPECT_NEAR(sum_of_squares(x) / static_cast<double>(sum), 1, 1e-13);
    const Tensor strided = random.strided(random.tensor({7, 9}));
    EXPECT_NEAR(sum_of_squares(strided) / sum_of_squares(contiguous_copy(strided)), 1, 1e-13);
  }
}

TEST(OptimizerStepTest, NormDoesNotOverflowFloat32) {
  EXPECT_NEAR(l2_norm(full({4}, 1e30)) / 2e30, 1, 1e-6);
}

// Also for numbers whose squares do not fit.
TEST(OptimizerStepTest, NormOfFiniteNumbersIsFinite) {
  const Options wide{.dtype = DType::float64};
  for (const double size : {1e-310, 1e-200, 1e-120, 1., 1e150, 1e200, 4e307}) {
    const Norm norm = norm_of(full({4}, size, wide));
    EXPECT_TRUE(norm.is_finite()) << size;
    EXPECT_NEAR(norm.value() / (2 * size), 1, 1e-12) << size;
  }
  const double most = std::numeric_limits<double>::max();
  const Norm beyond = norm_of(full({4}, most, wide));  // 2 most: no double, but finite
  EXPECT_TRUE(beyond.is_finite());
  EXPECT_NEAR(beyond.scale / most * std::sqrt(beyond.squares), 2, 1e-12);
  EXPECT_EQ(norm_of(zeros({4}, wide)).value(), 0);
  EXPECT_EQ(norm_of(zeros({0}, wide)).value(), 0);
  for (const DType dtype : kFloats)
    for (const double value : {INFINITY, -INFINITY, NAN})
      EXPECT_FALSE(norm_of(full({3}, value, {.dtype = dtype})).is_finite());
  EXPECT_NEAR(norm_of(full({9}, 3e38, {.dtype = DType::float32})).value() / 9e38, 1, 1e-6);
  EXPECT_NEAR(norm_of(full({9}, 3e38, {.dtype = DType::bfloat16})).value() / 9e38, 1, 1e-2);
  EXPECT_EQ(norm_of(full({9}, 65504, {.dtype = DType::float16})).value(), 3 * 65504);
}

TEST(OptimizerStepTest, NormsOfSeveralTensorsAddUpAtAnyScale) {
  const auto norm = [](double value) {
    return norm_of(full({1}, value, {.dtype = DType::float64}));
  };
  const std::array<double, 2> pairs[] = {{3e200, 4e200}, {3e-200, 4e-200}, {3, 4},
                                         {1e200, 1},     {1, 1e-200},      {0, 1e-200},
                                         {0, 1e200},     {3e135, 4e135},   {2.4e134, 3.2e135}};
  for (const auto& [a, b] : pairs)
    for (const bool swapped : {false, true}) {
      Norm sum = norm(swapped ? b : a);
      sum.add(norm(swapped ? a : b));
      EXPECT_NEAR(sum.value() / std::hypot(a, b), 1, 1e-12) << a << ' ' << b;
    }
  Norm sum = norm(1);
  sum.add(norm(INFINITY));
  sum.add(norm(1e200));
  EXPECT_FALSE(sum.is_finite());
}

TEST(OptimizerStepTest, NormDoesNotDependOnTheNumberOfThreads) {
  Random random(3);
  const Tensor x = random.tensor({300001});
  const auto norm = [&](int threads) {
    const Team team(threads);
    return l2_norm(x);
  };
  EXPECT_EQ(norm(1), norm(2));
}

TEST(OptimizerStepTest, ThrowsForArraysThatDoNotFit) {
  const Tensor p = zeros({4}), half = zeros({4}, {.dtype = DType::bfloat16});
  expect_throws<ShapeError>([&] { sgd_step(p, zeros({3}), {}, {}); },
                            "gradients must be contiguous and of as many elements as parameters; "
                            "got (3,) and (4,)");
  expect_throws<ShapeError>([&] { sgd_step(p, view::slice(zeros({8}), 0, 0, 8, 2), {}, {}); },
                            "contiguous");
  expect_throws<DTypeError>([&] { sgd_step(p, half, {}, {}); }, "got bfloat16");
  expect_throws<DTypeError>([&] { sgd_step(half, half, half, {.momentum = 0.9}); },
                            "buffer must be float32 for parameters of bfloat16; got bfloat16");
  expect_throws<ValueError>([&] { sgd_step(p, p, {}, {.momentum = 0.9}); }, "needs a buffer");
  expect_throws<ValueError>([&] { adam_step(p, p, p, p, {.step = 0}); }, "got 0");
  expect_throws<ValueError>(
      [&] { replayable_rmsprop_step(p, p, p, {}, [] { return RmspropStep{.momentum = 0.5}; }); },
      "needs a buffer");
  expect_throws<DTypeError>(
      [&] { replayable_lion_step(half, half, half, [] { return LionStep(); }); }, "momentum must");
  expect_throws<ShapeError>(
      [&] { replayable_adagrad_step(p, p, zeros({3}), [] { return AdagradStep(); }); },
      "square_sum must");
  expect_throws<DTypeError>([&] { l2_norm(zeros({2}, {.dtype = DType::int64})); }, "got int64");
}

}  // namespace
}  // namespace ringrad::kernels
