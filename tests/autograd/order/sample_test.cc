// unique() against a loop, and draws with the probabilities of a tensor.

#include "ringrad/autograd/order/sample.h"

#include <cmath>
#include <map>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/order/unique.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_throws;
using testing::Random;

TEST(UniqueTest, AgreesWithAMapOfCounts) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::bool_}) {
    for (const std::int64_t n : {0, 1, 60}) {
      Random random(static_cast<std::uint64_t>(n));
      const Tensor x = floor(random.tensor({n, 2}, DType::float32) * 3.) != 0.;
      const Tensor numbers = dtype == DType::bool_ ? x : random.tensor({n, 2}, dtype);
      const auto [values, inverse, counts] = unique(random.strided(numbers));
      std::map<double, std::int64_t> want;
      for (const double value : numbers.to_vector<double>()) ++want[value];
      const auto found = values.to_vector<double>();
      const auto numbers_of = counts.to_vector<std::int64_t>();
      ASSERT_EQ(found.size(), want.size());
      std::size_t k = 0;
      for (const auto& [value, count] : want) {
        EXPECT_EQ(found[k], value);
        EXPECT_EQ(numbers_of[k++], count);
      }
      ASSERT_EQ(inverse.shape(), numbers.shape());
      const auto places = inverse.to_vector<std::int64_t>();
      const auto all = numbers.to_vector<double>();
      for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(found[static_cast<std::size_t>(places[i])], all[i]);
    }
  }
  EXPECT_EQ(unique(tensor({NAN, 1., NAN}))[0].numel(), 3);
}

TEST(UniqueTest, NoGradientPassesThroughTheValuesUnnoticed) {
  const Tensor x = tensor({2.f, 1.f, 2.f}).set_requires_grad();
  const auto [values, inverse, counts] = unique(x);
  EXPECT_EQ(values.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_FALSE(counts.requires_grad());
  expect_throws<AutogradError>([&, v = values] { v.backward(ones({2})); }, "unique");
}

// How often each of n positions was drawn.
std::vector<double> shares(const Tensor& draws, std::int64_t n) {
  std::vector<double> result(static_cast<std::size_t>(n));
  for (const std::int64_t draw : draws.to_vector<std::int64_t>())
    result[static_cast<std::size_t>(draw)] += 1 / static_cast<double>(draws.numel());
  return result;
}

TEST(MultinomialTest, DrawsInProportionToTheWeights) {
  Generator generator(1);
  const Tensor weights = tensor({1., 0., 3., 4.});
  const auto share = shares(multinomial(weights, 20'000, true, generator), 4);
  const double want[] = {0.125, 0, 0.375, 0.5};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(share[i], want[i], 0.015);
  EXPECT_EQ(share[1], 0);
}

TEST(MultinomialTest, WithoutReplacementDrawsEachOnceAndTheHeavyFirst) {
  Generator generator(2);
  const Tensor weights = full({4000, 3}, 1) * tensor({1., 2., 5.});
  const Tensor draws = multinomial(weights, 3, false, generator);
  ASSERT_EQ(draws.shape(), (Shape{4000, 3}));
  const auto positions = draws.to_vector<std::int64_t>();
  double first_is_heavy = 0;
  for (std::size_t row = 0; row < 4000; ++row) {
    EXPECT_EQ(positions[3 * row] + positions[3 * row + 1] + positions[3 * row + 2], 3);
    EXPECT_NE(positions[3 * row], positions[3 * row + 1]);
    first_is_heavy += positions[3 * row] == 2 ? 1 : 0;
  }
  EXPECT_NEAR(first_is_heavy / 4000, 5. / 8, 0.03);
}

// The sum of the first weights is infinite; a place times the sum of the second rounds up to it.
TEST(MultinomialTest, WeightsMayLieAtTheEndsOfTheRange) {
  Generator generator(5);
  for (const double unit : {5e307, 5e-324}) {
    const Tensor weights = tensor({1., 0., 3., 0.}, DType::float64) * unit;
    double counts[4] = {};
    for (const std::int64_t i :
         multinomial(weights, 4000, true, generator).to_vector<std::int64_t>()) {
      ASSERT_TRUE(i == 0 || i == 2) << i;
      ++counts[i];
    }
    EXPECT_NEAR(counts[2] / 4000, 0.75, 0.03);
    double first_is_heavy = 0;
    const auto rows =
        multinomial(weights + zeros({4000, 1}, {.dtype = DType::float64}), 2, false, generator)
            .to_vector<std::int64_t>();
    for (std::size_t row = 0; row < 4000; ++row) {
      ASSERT_EQ(rows[2 * row] + rows[2 * row + 1], 2) << "0 and 2, in some order";
      first_is_heavy += rows[2 * row] == 2 ? 1 : 0;
    }
    EXPECT_NEAR(first_is_heavy / 4000, 0.75, 0.03);
  }
}

TEST(MultinomialTest, AGeneratorsCopyReplays) {
  Generator generator(3), copy = generator;
  const Tensor weights = tensor({1., 2., 3.}, DType::float16);
  expect_close(multinomial(weights, 50, true, generator), multinomial(weights, 50, true, copy));
}

TEST(BernoulliTest, HitsWithEachElementsProbability) {
  Generator generator(4);
  const Tensor p = full({3, 5000}, 1) * tensor({{0.}, {0.25}, {1.}});
  const auto hits = bernoulli(p, generator).to_vector<double>();
  double counts[3] = {};
  for (std::size_t i = 0; i < hits.size(); ++i) counts[i / 5000] += hits[i];
  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(counts[1] / 5000, 0.25, 0.03);
  EXPECT_EQ(counts[2], 5000);
}

TEST(SampleTest, ThrowsForWhatIsNoDistribution) {
  expect_throws<ValueError>([] { multinomial(tensor({1., -1.}), 1); }, "finite and not negative");
  expect_throws<ValueError>(
      [] {
        multinomial(tensor({1., 0.}), 2);
      },
      "each row must have at least 2 positive weights");
  expect_throws<ValueError>([] { multinomial(tensor({0., 0.}), 1, true); }, "at least 1 positive");
  expect_throws<ShapeError>([] { multinomial(tensor(1.), 1); }, "must be (N) or (B, N); got ()");
  expect_throws<ValueError>([] { bernoulli(tensor({0.5, 1.5})); }, "must be in [0, 1]");
  expect_throws<DTypeError>([] { bernoulli(tensor({1})); }, "int64");
}

}  // namespace
}  // namespace ringrad
