#include "ringrad/kernels/attention/attention.h"

#include <cmath>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/dropout.h"
#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/reference/attention.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::Random;
using ringrad::testing::Team;

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

struct Sizes {
  std::int64_t B, H, Hkv, T, S, D, Dv;
};

struct Inputs {
  Inputs(Random& random, const Sizes& n, DType dtype = DType::float32)
      : q(random.tensor({n.B, n.H, n.T, n.D}, dtype)),
        k(random.tensor({n.B, n.Hkv, n.S, n.D}, dtype)),
        v(random.tensor({n.B, n.Hkv, n.S, n.Dv}, dtype)),
        grad(random.tensor({n.B, n.H, n.T, n.Dv}, dtype)) {}

  Tensor q, k, v, grad;
};

struct Results {
  Tensor output, grad_q, grad_k, grad_v;
};

Results compute(const Inputs& in, const AttentionOptions& options,
                const AttentionDropout& dropout = {}) {
  const AttentionResult result = attention(in.q, in.k, in.v, options, dropout);
  const AttentionGradients gradients =
      attention_backward(in.grad, in.q, in.k, in.v, result, options, dropout);
  return {result.output, gradients.q, gradients.k, gradients.v};
}

void expect_same_results(const Results& a, const Results& b) {
  expect_same_bits(a.output, b.output);
  expect_same_bits(a.grad_q, b.grad_q);
  expect_same_bits(a.grad_k, b.grad_k);
  expect_same_bits(a.grad_v, b.grad_v);
}

Tensor like(const Tensor& x, const std::vector<double>& values) {
  return from_values(std::span<const double>(values), x.shape());
}

/// What is added to the scores, by the definition of each option.
std::vector<double> added_scores(const Sizes& n, const AttentionOptions& options) {
  const std::int64_t shift = options.alignment == CausalAlignment::lower_right ? n.S - n.T : 0;
  std::vector<double> mask(static_cast<std::size_t>(n.B * n.H * n.T * n.S), 0);
  if (options.mask.defined())
    mask = view::expand(options.mask, {n.B, n.H, n.T, n.S}).to_vector<double>();
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t position = at / n.S % n.T + shift, key = at % n.S;
    if (options.mask.defined() && options.mask.dtype() == DType::bool_)
      mask[i] = mask[i] != 0 ? 0 : kNever;
    if (options.causal && key > position) mask[i] = kNever;
    if (options.window > 0 && std::abs(position - key) >= options.window) mask[i] = kNever;
  }
  return mask;
}

void expect_agrees(const Inputs& in, const Sizes& n, const AttentionOptions& options,
                   const AttentionDropout& dropout = {}, const Tensor& factors = {}) {
  const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
  std::vector<double> factor(size(n.B * n.H * n.T * n.S), 1);
  if (factors.defined()) factor = factors.to_vector<double>();
  const reference::Attention expected{
      size(n.B),
      size(n.H),
      size(n.Hkv),
      size(n.T),
      size(n.S),
      size(n.D),
      size(n.Dv),
      options.scale.value_or(1 / std::sqrt(static_cast<double>(n.D))),
      in.q.to_vector<double>(),
      in.k.to_vector<double>(),
      in.v.to_vector<double>(),
      added_scores(n, options),
      factor};
  const auto gradients = expected.gradients(in.grad.to_vector<double>());
  const Results actual = compute(in, options, dropout);
  const double slack = 24 * std::sqrt(static_cast<double>(n.D + n.S));
  // Backward reads the output as rounded to 16 bits.
  const double backward = slack * (size_bytes(in.q.dtype()) == 2 ? 8 : 2);
  EXPECT_EQ(actual.output.dtype(), in.q.dtype());
  expect_close(actual.output, like(actual.output, expected.output()), slack);
  expect_close(actual.grad_q, like(in.q, gradients.q), backward);
  expect_close(actual.grad_k, like(in.k, gradients.k), backward);
  expect_close(actual.grad_v, like(in.v, gradients.v), backward);
}

// Extents around those of tiles, and heads that share keys.
const Sizes kSizes[] = {{1, 1, 1, 1, 1, 1, 1},     {2, 4, 2, 9, 11, 5, 7},
                        {1, 2, 1, 70, 33, 16, 16}, {1, 1, 1, 17, 140, 8, 24},
                        {2, 2, 2, 1, 37, 16, 16},  {1, 3, 3, 66, 65, 4, 33},
                        {1, 6, 2, 3, 50, 20, 16}};

// Larger than a tile in both directions, and than the chunks of a head; too slow on a simulator.
const Sizes kLarge = {1, 2, 1, 150, 530, 24, 40};

TEST(AttentionTest, AgreesWithReference) {
  Random random(1);
  for (const Sizes& n : kSizes)
    for (const DType dtype : kFloats) {
      SCOPED_TRACE(concat(Shape{n.B, n.H, n.Hkv, n.T, n.S, n.D, n.Dv}, ' ', dtype));
      const Inputs in(random, n, dtype);
      expect_agrees(in, n, {});
      expect_agrees(in, n, {.causal = true});
    }
}

// Around 64 rows, 32 and 64 keys, and all sizes of heads, some of which are padded or too large for
// tiles.
const Sizes kHeads[] = {{1, 2, 1, 66, 70, 32, 32}, {2, 2, 2, 9, 65, 64, 64},
                        {1, 1, 1, 17, 40, 72, 96}, {1, 2, 1, 20, 33, 128, 104},
                        {1, 2, 1, 5, 67, 40, 5},   {1, 1, 1, 66, 20, 96, 40},
                        {1, 2, 1, 3, 7, 136, 130}};

// A GPU computes these in registers or, most of those of 16 bits, on tensor cores.
TEST(AttentionTest, AgreesWithReferenceInHeadsOfAllSizes) {
  Random random(13);
  for (std::size_t i = 0; i < std::size(kHeads); ++i) {
    const Sizes& n = kHeads[i];
    SCOPED_TRACE(concat(Shape{n.B, n.H, n.Hkv, n.T, n.S, n.D, n.Dv}));
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      const Inputs in(random, n, dtype);
      expect_agrees(in, n, {.causal = i % 2 == 0});
      expect_agrees(in, n, {.causal = true, .alignment = CausalAlignment::lower_right});
    }
  }
}

TEST(AttentionTest, AppliesAllOptionsIn16Bits) {
  Random random(14);
  const Sizes n{2, 2, 1, 35, 70, 16, 24};
  const Inputs in(random, n, DType::bfloat16);
  const std::vector<AttentionOptions> all = {
      {.window = 3},
      {.causal = true, .scale = -2., .window = 20},
      {.causal = true, .alignment = CausalAlignment::lower_right, .window = 33},
      {.mask = random.tensor({n.B, n.H, n.T, n.S}, DType::bool_)},
      {.mask = random.strided(random.tensor({n.B, 1, 1, n.S}, DType::bool_)), .causal = true},
      {.mask = random.tensor({n.H, n.T, 1}), .window = 9},
      {.mask = random.tensor({n.T, n.S}, DType::bfloat16), .causal = true}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(concat("options ", i));
    expect_agrees(in, n, all[i]);
  }
}

// Tiles of 64 x 64 that are skipped, partial or masked; windows that begin within a tile; blocks of
// queries without keys, and of keys without queries.
TEST(AttentionTest, AppliesAllOptionsToSeveralTiles) {
  Random random(15);
  for (const Sizes& n : {Sizes{1, 4, 2, 130, 70, 12, 20}, Sizes{1, 2, 1, 70, 200, 20, 9}}) {
    const Inputs in(random, n);
    const std::vector<AttentionOptions> all = {
        {.causal = true},
        {.causal = true, .alignment = CausalAlignment::lower_right},
        {.causal = true, .window = 30},
        {.alignment = CausalAlignment::lower_right, .window = 70},
        {.mask = random.strided(random.tensor({n.T, n.S}, DType::bool_)), .causal = true},
        {.mask = random.tensor({n.H, 1, n.S}), .window = 66}};
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(concat(Shape{n.B, n.H, n.Hkv, n.T, n.S, n.D, n.Dv}, " options ", i));
      expect_agrees(in, n, all[i]);
    }
  }
}

TEST(AttentionTest, RestrictsKeysAsTheOptionsSay) {
  Random random(2);
  const std::vector<AttentionOptions> all = {
      {.causal = true, .alignment = CausalAlignment::lower_right},
      {.window = 3},
      {.causal = true, .window = 1},
      {.causal = true, .window = 20},
      {.causal = true, .alignment = CausalAlignment::lower_right, .window = 5},
      {.scale = 0.3},
      {.causal = true, .scale = -2.}};
  for (const Sizes& n : kSizes)
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(concat(Shape{n.B, n.H, n.Hkv, n.T, n.S, n.D, n.Dv}, " options ", i));
      expect_agrees(Inputs(random, n), n, all[i]);
    }
}

TEST(AttentionTest, AppliesMasksThatBroadcast) {
  Random random(3);
  for (const Sizes& n : kSizes) {
    const Inputs in(random, n);
    for (const Shape& shape :
         {Shape{n.B, n.H, n.T, n.S}, Shape{n.T, n.S}, Shape{n.B, 1, 1, n.S}, Shape{n.H, n.T, 1}}) {
      SCOPED_TRACE(concat(Shape{n.B, n.H, n.Hkv, n.T, n.S, n.D, n.Dv}, " mask ", shape));
      const Tensor allowed = random.tensor(shape, DType::bool_);
      expect_agrees(in, n, {.mask = allowed});
      expect_agrees(in, n, {.mask = random.strided(allowed), .causal = true});
      expect_agrees(in, n, {.mask = random.tensor(shape)});
      expect_agrees(in, n, {.mask = random.tensor(shape, DType::bfloat16), .window = 9});
    }
  }
}

TEST(AttentionTest, ComputesTilesOfAllKinds) {
  if (default_device().is_cuda()) GTEST_SKIP() << "thousands of simulated threads";
  Random random(4);
  const Inputs in(random, kLarge);
  expect_agrees(in, kLarge, {});
  expect_agrees(in, kLarge, {.causal = true});
  expect_agrees(in, kLarge, {.causal = true, .alignment = CausalAlignment::lower_right});
  expect_agrees(in, kLarge, {.window = 40});
  const Sizes tall{1, 1, 1, 530, 150, 24, 40};
  expect_agrees(Inputs(random, tall), tall,
                {.causal = true, .alignment = CausalAlignment::lower_right});
  expect_agrees(Inputs(random, tall), tall, {.causal = true, .window = 33});
}

// The first rows of a tile see only keys that its last keys replace as the largest, by far.
TEST(AttentionTest, StaysExactWhenLaterKeysScoreHigher) {
  Random random(5);
  const Sizes n{1, 1, 1, 10, 300, 4, 4};
  Inputs in(random, n);
  for (std::int64_t s = 0; s < n.S; ++s) {
    const Tensor row = view::select(in.k, 2, s);
    copy_(row, full(row.shape(), static_cast<double>(s) / 4));
  }
  expect_agrees(in, n, {});
}

TEST(AttentionTest, GivesZerosToQueriesWithoutKeys) {
  Random random(6);
  const Sizes n{1, 2, 1, 20, 12, 8, 8};
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Inputs in(random, n, dtype);
    const auto nothing = [&](const Shape& shape) { return zeros(shape, {.dtype = dtype}); };
    // Aligned at the end, the first 8 queries come before all keys.
    const AttentionOptions ends{.causal = true, .alignment = CausalAlignment::lower_right};
    const Results results = compute(in, ends);
    expect_same_bits(view::slice(results.output, 2, 0, 8), nothing({1, 2, 8, 8}));
    expect_same_bits(view::slice(results.grad_q, 2, 0, 8), nothing({1, 2, 8, 8}));
    for (const Tensor& mask : {full({20, 12}, kNever), zeros({20, 12}, {.dtype = DType::bool_})}) {
      const Results none = compute(in, {.mask = mask});
      expect_same_bits(none.output, nothing({1, 2, 20, 8}));
      expect_same_bits(none.grad_q, nothing({1, 2, 20, 8}));
      expect_same_bits(none.grad_k, nothing({1, 1, 12, 8}));
      expect_same_bits(none.grad_v, nothing({1, 1, 12, 8}));
    }
  }
}

// Masks often hold large finite numbers in place of -inf. A row of only those is a mean, in which
// the logarithm of the number of keys is nothing beside a score.
TEST(AttentionTest, DifferentiatesARowOfLowestNumbersAsAMean) {
  if (default_device().is_cuda()) GTEST_SKIP() << "not on GPUs, as attention.h of autograd says";
  Random random(17);
  for (const std::int64_t T : {2, 9})
    for (const DType dtype : {DType::float32, DType::float64})
      for (const double lowest :
           {-1e20, dtype == DType::float64 ? std::numeric_limits<double>::lowest()
                                           : std::numeric_limits<float>::lowest()}) {
        SCOPED_TRACE(concat(T, ' ', dtype, ' ', lowest));
        const Sizes n{1, 2, 1, T, 7, 8, 8};
        const Tensor mask = full({n.S}, lowest, {.dtype = dtype});
        expect_agrees(Inputs(random, n, dtype), n, {.mask = mask});
      }
}

TEST(AttentionTest, KeepsNanInItsRow) {
  Random random(7);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Inputs in(random, {1, 1, 1, 3, 5, 8, 8}, dtype);
    copy_(view::select(view::select(in.q, 2, 1), 2, 0),
          full({1, 1}, std::numeric_limits<double>::quiet_NaN(), {.dtype = dtype}));
    const Tensor y = attention(in.q, in.k, in.v, {}).output;
    for (const double value : view::select(y, 2, 1).to_vector<double>())
      EXPECT_TRUE(std::isnan(value));
    for (const double value : view::select(y, 2, 2).to_vector<double>())
      EXPECT_FALSE(std::isnan(value));
  }
}

TEST(AttentionTest, DropsTheProbabilitiesThatDropoutWouldDrop) {
  Random random(8);
  const auto expect_dropped = [&](const Sizes& n, DType dtype) {
    const double p = 0.3;
    Generator generator(5), same(5);
    generator.reserve(12);
    same.reserve(12);
    const Inputs in(random, n, dtype);
    const AttentionOptions options{.causal = true, .dropout = p};
    const auto dropout =
        AttentionDropout::reserve(attention_problem(in.q, in.k, in.v, options), p, generator);
    const Tensor scores = ones({n.B, n.H, n.T, n.S});
    const Tensor factors = apply_mask(scores, dropout_mask(scores, p, same), dropout_scale(p));
    EXPECT_EQ(generator.offset(), same.offset());
    expect_agrees(in, n, options, dropout, factors);
  };
  for (const Sizes& n : kSizes) expect_dropped(n, DType::float32);
  expect_dropped({1, 2, 1, 66, 70, 32, 40}, DType::bfloat16);
  const Inputs in(random, {1, 1, 1, 4, 4, 4, 4});
  expect_same_bits(attention(in.q, in.k, in.v, {.dropout = 1}, {.p = 1}).output,
                   zeros({1, 1, 4, 4}));
}

TEST(AttentionTest, DoesNotDependOnStrides) {
  Random random(9);
  const auto expect_same = [&](const Sizes& n, DType dtype, const AttentionOptions& options) {
    const Inputs in(random, n, dtype);
    Inputs strided = in;
    for (Tensor* x : {&strided.q, &strided.k, &strided.v, &strided.grad}) *x = random.strided(*x);
    expect_same_results(compute(strided, options), compute(in, options));
  };
  for (const Sizes& n : kSizes) expect_same(n, DType::float32, {.causal = true});
  // With a window, our own kernels compute it also where cuDNN is asked for.
  expect_same({2, 2, 1, 20, 20, 16, 16}, DType::bfloat16, {.causal = true, .window = 9});
}

TEST(AttentionTest, ReturnsTheOrderOfItsQueries) {
  Random random(10);
  const auto by_position = [](const Tensor& x) {  // (B, T, H, D) in memory
    return view::transpose(contiguous(view::transpose(x, 1, 2)), 1, 2);
  };
  for (const DType dtype : {DType::float32, DType::float16}) {
    const Inputs in(random, {2, 3, 3, 5, 5, 8, 8}, dtype);
    Inputs transposed = in;
    for (Tensor* x : {&transposed.q, &transposed.k, &transposed.v}) *x = by_position(*x);
    const AttentionOptions options{.window = 3};  // always our own kernels, as above
    const Results results = compute(transposed, options);
    expect_same_results(results, compute(in, options));
    EXPECT_TRUE(view::transpose(results.output, 1, 2).is_contiguous());
    EXPECT_TRUE(view::transpose(results.grad_k, 1, 2).is_contiguous());
    EXPECT_TRUE(compute(in, {}).output.is_contiguous());
  }
}

TEST(AttentionTest, DoesNotDependOnTheNumberOfThreads) {
  if (default_device().is_cuda()) GTEST_SKIP() << "threads of the host compute nothing";
  Random random(11);
  for (const Sizes& n : {kLarge, Sizes{3, 4, 2, 90, 90, 16, 16}}) {
    const Inputs in(random, n);
    const auto with_threads = [&](int threads) {
      const Team team(threads);
      return compute(in, {.causal = true});
    };
    const Results one = with_threads(1);
    for (const int threads : {2, 3, 8}) expect_same_results(with_threads(threads), one);
  }
}

TEST(AttentionTest, TakesEmptyTensors) {
  Random random(12);
  for (const Sizes& n :
       {Sizes{0, 2, 2, 3, 3, 4, 4}, Sizes{2, 0, 0, 3, 3, 4, 4}, Sizes{1, 2, 1, 0, 3, 4, 4},
        Sizes{1, 2, 1, 3, 0, 4, 4}, Sizes{1, 2, 1, 3, 3, 4, 0}}) {
    SCOPED_TRACE(Shape({n.B, n.H, n.Hkv, n.T, n.S, n.D, n.Dv}));
    const Inputs in(random, n);
    const Results results = compute(in, {.causal = true});
    expect_same_bits(results.output, zeros({n.B, n.H, n.T, n.Dv}));
    if (n.Dv == 0) continue;
    expect_same_bits(results.grad_q, zeros(in.q.shape()));
    expect_same_bits(results.grad_k, zeros(in.k.shape()));
    expect_same_bits(results.grad_v, zeros(in.v.shape()));
  }
}

}  // namespace
}  // namespace ringrad::kernels
