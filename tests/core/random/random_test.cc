#include "ringrad/core/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numbers>
#include <utility>
#include <vector>

#include "ringrad/core/random/philox.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;

constexpr DType kFloating[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;

  explicit Moments(const std::vector<double>& values) {
    const auto n = static_cast<double>(values.size());
    for (const double v : values) mean += v / n;
    for (const double v : values) variance += (v - mean) * (v - mean) / n;
    for (const double v : values) {
      const double z = (v - mean) / std::sqrt(variance);
      skewness += z * z * z / n;
      kurtosis += z * z * z * z / n;
    }
  }
};

// Pearson's statistic of counts that should all be equal, in standard deviations from its mean.
double chi_square_score(const std::vector<int>& counts) {
  double total = 0, sum = 0;
  for (const int count : counts) total += count;
  const double expected = total / static_cast<double>(counts.size());
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  const auto freedom = static_cast<double>(counts.size() - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

std::uint32_t word_of(std::uint64_t seed, std::uint64_t i) { return philox(seed, i / 4)[i % 4]; }

TEST(UniformTest, IsTheTopBitsOfTheWords) {
  Generator generator(7);
  const auto floats = rand({1001}, {}, generator).to_vector<float>();
  for (std::uint64_t i = 0; i < floats.size(); ++i)
    ASSERT_EQ(floats[i], static_cast<float>(word_of(7, i) >> 8) * 0x1p-24f) << i;

  generator.set_offset(0);
  const auto doubles = rand({1001}, {.dtype = DType::float64}, generator).to_vector<double>();
  for (std::uint64_t i = 0; i < doubles.size(); ++i) {
    const std::uint64_t word = word_of(7, 2 * i) | std::uint64_t{word_of(7, 2 * i + 1)} << 32;
    ASSERT_EQ(doubles[i], static_cast<double>(word >> 11) * 0x1p-53) << i;
  }
}

TEST(UniformTest, HasTheMomentsOfItsInterval) {
  for (const DType dtype : kFloating) {
    Generator generator(1);
    const Tensor x = empty({100'000}, {.dtype = dtype});
    uniform_(x, -1, 3, generator);
    const Moments moments(x.to_vector<double>());
    // A bfloat16 in [0, 1) is one of 256 numbers, whose mean is half of 1/256 too low.
    EXPECT_NEAR(moments.mean, 1, 0.02) << dtype;
    EXPECT_NEAR(moments.variance, 16.0 / 12, 0.02) << dtype;
    EXPECT_NEAR(moments.skewness, 0, 0.02) << dtype;
    EXPECT_NEAR(moments.kurtosis, 1.8, 0.02) << dtype;
  }
}

TEST(UniformTest, NeverReachesItsUpperEnd) {
  for (const DType dtype : kFloating) {
    const double epsilon = testing::epsilon(dtype);
    const std::pair<double, double> kIntervals[] = {
        {0, 1},       {1, 1 + epsilon}, {1, 1 + 4 * epsilon}, {-1, 0}, {-2, -1},
        {1000, 1001}, {0.1, 0.3}};
    for (const auto& [low, high] : kIntervals) {
      Generator generator(2);
      const Tensor x = empty({20'000}, {.dtype = dtype});
      uniform_(x, low, high, generator);
      const double lowest = full({}, low, {.dtype = dtype}).item<double>();
      const double highest = full({}, high, {.dtype = dtype}).item<double>();
      for (const double value : x.to_vector<double>()) {
        ASSERT_GE(value, lowest) << dtype << low << high;
        // 1001 is 1000 in bfloat16: where the interval has collapsed, only its one number remains.
        ASSERT_TRUE(value < high || lowest == highest) << dtype << low << high;
      }
    }
  }
}

// float16's whole range fits in float32, in which it is computed; float64 holds float32's.
TEST(UniformTest, WideIntervalsStayFinite) {
  const std::pair<DType, double> ends[] = {
      {DType::float16, 65504}, {DType::float32, 1.7e38}, {DType::float64, 8e307}};
  for (const auto& [dtype, end] : ends) {
    const auto values = uniform(-end, end, {1000}, {.dtype = dtype}).to_vector<double>();
    for (const double value : values) ASSERT_TRUE(value >= -end && value < end) << value;
    EXPECT_LT(*std::min_element(values.begin(), values.end()), -0.9 * end);
    EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.9 * end);
  }
}

TEST(UniformTest, MakesLeaves) {
  EXPECT_TRUE(rand({2}, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(randn({2}, {.requires_grad = true}).requires_grad());
}

TEST(UniformTest, AnEmptyIntervalIsItsLowerEnd) {
  const Tensor x = zeros({10});
  uniform_(x, 2.5, 2.5);
  expect_close(x, std::vector<double>(10, 2.5), 0);
}

TEST(NormalTest, IsTheBoxMullerTransformOfTheWords) {
  Generator generator(11);
  const auto floats = randn({4096}, {}, generator).to_vector<double>();
  generator.set_offset(0);
  const auto doubles = randn({4096}, {.dtype = DType::float64}, generator).to_vector<double>();
  const auto check = [](double u, double turns, double first, double second, double tolerance) {
    const double radius = std::sqrt(-2 * std::log(u));
    const double angle = 2 * std::numbers::pi * turns;
    ASSERT_NEAR(first, radius * std::cos(angle), tolerance * (1 + radius)) << u << ' ' << turns;
    ASSERT_NEAR(second, radius * std::sin(angle), tolerance * (1 + radius)) << u << ' ' << turns;
  };
  for (std::uint64_t i = 0; i < 4096; i += 2) {
    // Near u = 1 the radius depends on u's last bit: the float32 u is rounded to 24 bits here, as
    // in the library.
    const float u = static_cast<float>(word_of(11, i)) * 0x1p-32f + 0x1p-33f;
    check(u, word_of(11, i + 1) * 0x1p-32, floats[i], floats[i + 1], 4 * 0x1p-23);
    const auto pair = [&](std::uint64_t k) {
      return static_cast<double>(word_of(11, 2 * k) | std::uint64_t{word_of(11, 2 * k + 1)} << 32);
    };
    check(pair(i) * 0x1p-64 + 0x1p-65, pair(i + 1) * 0x1p-64, doubles[i], doubles[i + 1],
          16 * 0x1p-52);
  }
}

TEST(NormalTest, HasTheMomentsOfANormalDistribution) {
  for (const DType dtype : kFloating) {
    Generator generator(3);
    const Tensor x = empty({200'000}, {.dtype = dtype});
    normal_(x, 2, 0.5, generator);
    const Moments moments(x.to_vector<double>());
    EXPECT_NEAR(moments.mean, 2, 0.01) << dtype;
    EXPECT_NEAR(moments.variance, 0.25, 0.005) << dtype;
    EXPECT_NEAR(moments.skewness, 0, 0.03) << dtype;
    EXPECT_NEAR(moments.kurtosis, 3, 0.06) << dtype;
  }
}

TEST(NormalTest, FillsItsBins) {
  Generator generator(4);
  std::vector<int> counts(64);
  for (const double z : randn({1 << 18}, {}, generator).to_vector<double>()) {
    const double probability = std::erfc(-z / std::numbers::sqrt2) / 2;
    ++counts[std::min<std::size_t>(static_cast<std::size_t>(probability * 64), 63)];
  }
  EXPECT_LT(std::abs(chi_square_score(counts)), 4);
}

TEST(NormalTest, NeighboursAreUncorrelated) {
  Generator generator(5);
  const auto z = randn({1 << 18}, {}, generator).to_vector<double>();
  for (const std::size_t lag : {1u, 2u, 3u, 4u, 8u, 512u}) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < z.size(); ++i) sum += z[i] * z[i + lag];
    EXPECT_LT(std::abs(sum / std::sqrt(static_cast<double>(z.size()))), 4) << lag;
  }
}

// The conversion of words to numbers uses only correctly rounded operations. These are therefore
// the numbers on every machine, with vector clones or without.
TEST(NormalTest, HasTheSameBitsOnEveryMachine) {
  Generator generator(2024);
  const auto digest = [](const auto& values) {
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a over 64-bit words
    for (const double value : values)
      hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 1099511628211u;
    return hash;
  };
  EXPECT_EQ(digest(randn({10'000}, {}, generator).to_vector<double>()), 8786562905069318245u);
  EXPECT_EQ(digest(randn({10'000}, {.dtype = DType::float64}, generator).to_vector<double>()),
            8056462827367513369u);
  EXPECT_EQ(digest(randn({10'000}, {.dtype = DType::bfloat16}, generator).to_vector<double>()),
            15280450143330496613u);
}

TEST(ExponentialTest, IsTheLogarithmOfAUniformDraw) {
  Generator generator(9);
  const Tensor x = zeros({1000}, {.dtype = DType::float64});
  exponential_(x, 2, generator);
  const auto values = x.to_vector<double>();
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const std::uint64_t word = word_of(9, 2 * i) | std::uint64_t{word_of(9, 2 * i + 1)} << 32;
    const double u = (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
    ASSERT_NEAR(values[i], -std::log(u) / 2, 1e-14 * (1 + values[i])) << i;
  }
}

TEST(ExponentialTest, HasTheMomentsOfItsRate) {
  for (const DType dtype : kFloating) {
    Generator generator(10);
    const Tensor x = zeros({200'000}, {.dtype = dtype});
    exponential_(x, 0.5, generator);
    const Moments moments(x.to_vector<double>());
    EXPECT_NEAR(moments.mean, 2, 0.02);
    EXPECT_NEAR(moments.variance, 4, 0.12);
    EXPECT_NEAR(moments.skewness, 2, 0.15);
  }
}

TEST(BernoulliTest, HitsWithItsProbability) {
  for (const double probability : {0.0, 0.001, 0.3, 0.9, 1.0}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int64,
                              DType::uint8, DType::bool_}) {
      Generator generator(6);
      constexpr std::int64_t kCount = 100'000;
      const Tensor x = empty({kCount}, {.dtype = dtype});
      bernoulli_(x, probability, generator);
      double hits = 0;
      for (const double value : x.to_vector<double>()) {
        ASSERT_TRUE(value == 0 || value == 1) << dtype;
        hits += value;
      }
      const double deviation = std::sqrt(kCount * probability * (1 - probability));
      EXPECT_LE(std::abs(hits - kCount * probability), 4 * deviation) << dtype << probability;
    }
  }
}

TEST(BernoulliTest, DTypesDrawTheSame) {
  Generator a(8), b(8);
  const Tensor x = empty({999}), y = empty({999}, {.dtype = DType::bool_});
  bernoulli_(x, 0.4, a);
  bernoulli_(y, 0.4, b);
  EXPECT_EQ(x.to_vector<double>(), y.to_vector<double>());
}

TEST(BelowTest, IsUniform) {
  Generator generator(13);
  std::vector<int> counts(37);
  for (int i = 0; i < 100'000; ++i) ++counts[generator.below(counts.size())];
  EXPECT_LT(std::abs(chi_square_score(counts)), 4);
  EXPECT_EQ(generator.below(1), 0u);
}

// With bound 3 * 2^62 a plain remainder would give the lowest third of the numbers twice as often
// as the others.
TEST(BelowTest, IsUnbiasedWhereTheRemainderIsNot) {
  Generator generator(14);
  constexpr std::uint64_t kBound = std::uint64_t{3} << 62;
  std::vector<int> thirds(3);
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t value = generator.below(kBound);
    ASSERT_LT(value, kBound);
    ++thirds[value >> 62];
  }
  EXPECT_LT(std::abs(chi_square_score(thirds)), 4);
}

TEST(RandintTest, CoversItsRange) {
  Generator generator(15);
  const Tensor x = randint(-3, 4, {7000}, generator);
  EXPECT_EQ(x.dtype(), DType::int64);
  std::vector<int> counts(7);
  for (const int value : x.to_vector<int>()) {
    ASSERT_TRUE(-3 <= value && value < 4);
    ++counts[static_cast<std::size_t>(value + 3)];
  }
  EXPECT_LT(std::abs(chi_square_score(counts)), 4);
}

TEST(RandintTest, TakesTheWholeRangeOfInt64) {
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  int negative = 0;
  for (const std::int64_t value : randint(kMin, kMax, {1000}).to_vector<std::int64_t>())
    negative += value < 0;
  EXPECT_TRUE(400 < negative && negative < 600) << negative;
}

TEST(RandpermTest, HoldsEveryNumberOnce) {
  for (const std::int64_t n : {0, 1, 2, 1000}) {
    auto order = randperm(n).to_vector<std::int64_t>();
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, arange(n).to_vector<std::int64_t>());
  }
}

TEST(RandpermTest, EveryOrderIsEquallyLikely) {
  Generator generator(16);
  std::map<std::vector<int>, int> orders;
  for (int i = 0; i < 24'000; ++i) ++orders[randperm(4, generator).to_vector<int>()];
  ASSERT_EQ(orders.size(), 24u);
  std::vector<int> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  EXPECT_LT(std::abs(chi_square_score(counts)), 4);
}

TEST(RandomErrorTest, NamesTheFault) {
  const Tensor x = zeros({2}), whole = zeros({2}, {.dtype = DType::int64});
  expect_throws<DTypeError>([&] { uniform_(whole, 0, 1); },
                            "uniform_: needs a floating dtype; got int64");
  expect_throws<DTypeError>([&] { normal_(whole, 0, 1); },
                            "normal_: needs a floating dtype; got int64");
  expect_throws<ValueError>([&] { uniform_(x, 1, 0); },
                            "uniform_: low must not exceed high; got 1 and 0");
  expect_throws<ValueError>([&] { uniform_(x, 0, INFINITY); }, "got 0 and inf");
  expect_throws<ValueError>([&] { uniform_(x, 0, 1e300); },
                            "got 0 and 1e+300");  // infinite in float32
  expect_throws<ValueError>([&] { uniform_(x, NAN, 1); }, "got nan and 1");
  expect_throws<ValueError>([&] { normal_(x, 0, -1); },
                            "normal_: deviation must not be negative; got -1");
  const std::pair<double, double> not_finite[] = {{0, NAN},      {NAN, 1},   {INFINITY, 1},
                                                  {0, INFINITY}, {-1e39, 1}, {0, 1e39}};
  for (const auto& [mean, deviation] : not_finite)
    expect_throws<ValueError>([&, m = mean, d = deviation] { normal_(x, m, d); }, "normal_: ");
  expect_throws<ValueError>([&] { normal_(x, NAN, 1); },
                            "mean and deviation must be finite as float32; got nan and 1");
  expect_throws<ValueError>([&] { uniform_(x, -3e38, 3e38); },
                            "high - low must be finite as float32");
  const Tensor half = empty({4}, {.dtype = DType::float16});
  expect_throws<ValueError>([&] { uniform_(half, 0, 1e5); }, "low and high as float16; got 0 and");
  expect_throws<ValueError>([&] { normal_(half, 1e5, 1); }, "must be finite as float16");
  expect_throws<ValueError>([&] { exponential_(x, 0); },
                            "exponential_: rate must be positive as float32; got 0");
  expect_throws<ValueError>([&] { exponential_(x, 1e-60); }, "got 1e-60");  // 0 in float32
  expect_throws<ValueError>([&] { bernoulli_(x, 1.5); },
                            "bernoulli_: probability must be in [0, 1]; got 1.5");
  expect_throws<ValueError>([&] { bernoulli_(x, NAN); }, "got nan");
  expect_throws<ValueError>([] { randint(3, 3, {2}); },
                            "randint: low must be below high; got 3 and 3");
  expect_throws<ValueError>([] { randperm(-1); }, "randperm: n must not be negative; got -1");
}

}  // namespace
}  // namespace ringrad
