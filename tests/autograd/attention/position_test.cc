// What attention can know of positions: rotary embeddings and linear biases.

#include <cmath>

#include "ringrad/autograd/attention/alibi.h"
#include "ringrad/autograd/attention/attention.h"
#include "ringrad/autograd/attention/rotary_embedding.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/gradient_check.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::kDefaultSlack;
using testing::Random;

const RotaryOptions kRotary[] = {{},
                                 {.interleaved = true},
                                 {.offset = 1000, .base = 100},
                                 {.size = 4},
                                 {.interleaved = true, .size = 2}};

// The definition, in double, for x (B, T, D).
Tensor rotated(const Tensor& x, const RotaryOptions& options) {
  const Shape& shape = x.shape();
  const std::int64_t D = shape[2], R = options.size > 0 ? options.size : D;
  std::vector<double> values = x.to_vector<double>();
  for (std::int64_t row = 0; row < shape[0] * shape[1]; ++row)
    for (std::int64_t i = 0; i < R / 2; ++i) {
      const double w =
          static_cast<double>(options.offset + row % shape[1]) *
          std::pow(options.base, -2. * static_cast<double>(i) / static_cast<double>(R));
      double* from = values.data() + row * D;
      double& a = from[options.interleaved ? 2 * i : i];
      double& b = from[options.interleaved ? 2 * i + 1 : i + R / 2];
      const double old_a = a, old_b = b;
      a = old_a * std::cos(w) - old_b * std::sin(w);
      b = old_b * std::cos(w) + old_a * std::sin(w);
    }
  return from_values(std::span<const double>(values), shape);
}

// Powers have errors of up to two units in the last place on GPUs, and an angle is one of them
// times a position of up to 1007.
constexpr double kAngleSlack = 4 * 1007;

TEST(RotaryEmbeddingTest, AgreesWithReference) {
  Random random(1);
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const RotaryOptions& options : kRotary)
      for (const Shape& shape : {Shape{3, 5, 4}, Shape{2, 7, 38}}) {
        const Tensor x = random.tensor(shape, dtype);
        const Tensor y = rotary_embedding(x, options);
        EXPECT_EQ(y.dtype(), dtype);
        const bool is_exact = dtype != DType::float64 || options.offset == 0;
        expect_close(y, rotated(x, options), is_exact ? kDefaultSlack : kAngleSlack);
        expect_same_bits(rotary_embedding(random.strided(x), options), y);
      }
}

TEST(RotaryEmbeddingTest, GradientsAgreeWithDifferences) {
  Random random(2);
  const Tensor x = random.tensor({2, 3, 6}, DType::float64).set_requires_grad();
  for (const RotaryOptions& options : kRotary) {
    const auto f = [&](const std::vector<Tensor>& in) { return rotary_embedding(in[0], options); };
    EXPECT_EQ(gradient_check(f, {x}), "");
    EXPECT_EQ(gradient_gradient_check(f, {x}), "");
  }
}

TEST(RotaryEmbeddingTest, ProductsDependOnDistancesOnly) {
  Random random(3);
  const Tensor q = random.tensor({1, 64}, DType::float64),
               k = random.tensor({1, 64}, DType::float64);
  const auto product = [&](std::int64_t t, std::int64_t s) {
    return sum(rotary_embedding(q, {.offset = t}) * rotary_embedding(k, {.offset = s}));
  };
  expect_close(product(7, 3), product(90'007, 90'003), 1e6);  // an angle of 1e5 has 1e-11 of noise
}

TEST(RotaryEmbeddingTest, RotatesTheRowsOfASequenceOneByOne) {
  Random random(4);
  const Tensor x = random.tensor({2, 3, 5, 8});
  const Tensor whole = rotary_embedding(x, {.offset = 2});
  for (std::int64_t t = 0; t < 5; ++t)
    expect_same_bits(rotary_embedding(slice(x, 2, t, t + 1), {.offset = 2 + t}),
                     slice(whole, 2, t, t + 1));
}

TEST(RotaryEmbeddingTest, TakesEmptyTensorsAndThrowsForOddSizes) {
  EXPECT_EQ(rotary_embedding(zeros({2, 0, 4})).shape(), Shape({2, 0, 4}));
  expect_throws<ShapeError>([] { rotary_embedding(ones({2, 3})); }, "got 3 of 3");
  expect_throws<ShapeError>([] { rotary_embedding(ones({2, 4}), {.size = 6}); }, "got 6 of 4");
  expect_throws<ShapeError>([] { rotary_embedding(ones({4})); }, "at least 2 axes");
  expect_throws<ValueError>([] { rotary_embedding(ones({2, 4}), {.offset = -1}); }, "offset");
  expect_throws<ValueError>([] { rotary_embedding(ones({2, 4}), {.offset = INT64_MAX}); }, "2^53");
}

// Values of the paper's published code.
TEST(AlibiTest, SlopesAreThoseOfThePaper) {
  expect_close(alibi_slopes(1), {1. / 256});
  expect_close(alibi_slopes(8),
               {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625});
  expect_close(alibi_slopes(6), {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125});
  expect_close(alibi_slopes(3), {0.0625, 0.00390625, 0.25});
}

TEST(AlibiTest, BiasFallsWithTheDistanceFromTheLastKey) {
  expect_close(alibi_bias(1, 2, 3), {-1. / 256, 0, -1. / 256, -2. / 256, -1. / 256, 0});
  EXPECT_EQ(alibi_bias(12, 0, 3).shape(), Shape({12, 0, 3}));
  expect_throws<ValueError>([] { alibi_slopes(0); }, "heads must be positive; got 0");
}

// With kept keys, the last query alone gives what it gives among all queries.
TEST(PositionTest, OneQueryWithKeptKeysGivesTheLastRowOfAll) {
  Random random(5);
  const Tensor x = random.tensor({1, 2, 6, 8}), v = random.tensor({1, 2, 6, 8});
  const Tensor rotated_keys = rotary_embedding(x);
  const AttentionOptions all{.mask = alibi_bias(2, 6, 6), .causal = true};
  const AttentionOptions last{.mask = alibi_bias(2, 1, 6),
                              .causal = true,
                              .alignment = CausalAlignment::lower_right,
                              .window = 6};
  const Tensor query = rotary_embedding(slice(x, 2, 5), {.offset = 5});
  expect_close(scaled_dot_product_attention(query, rotated_keys, v, last),
               slice(scaled_dot_product_attention(rotated_keys, rotated_keys, v, all), 2, 5));
}

}  // namespace
}  // namespace ringrad
