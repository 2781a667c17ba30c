// Filling tensors with random numbers: what an element depends on, and what a fill leaves alone.

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "ringrad/core/random/random.h"
#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_close;
using testing::expect_same_bits;

constexpr DType kFloating[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

TEST(FillTest, TensorsLikeAnotherHaveItsProperties) {
  Generator generator(1), replay(1);
  const Tensor x = zeros({2, 3}, {.dtype = DType::float64});
  expect_same_bits(rand_like(x, generator), rand({2, 3}, {.dtype = DType::float64}, replay));
  expect_same_bits(randn_like(x, generator), randn({2, 3}, {.dtype = DType::float64}, replay));
  const Tensor far = uniform(5, 6, {100}, {}, generator), near = normal(3, 0, {4}, {}, generator);
  for (const double value : far.to_vector<double>()) EXPECT_TRUE(value >= 5 && value < 6);
  expect_close(near, {3, 3, 3, 3});
}

TEST(FillTest, AnElementDoesNotDependOnHowManyThereAre) {
  for (const DType dtype : kFloating) {
    Generator all(9);
    const Tensor whole = randn({3000}, {.dtype = dtype}, all);
    for (const std::int64_t n : {1, 2, 3, 4, 5, 255, 256, 257, 511, 512, 513, 2999}) {
      Generator generator(9);
      expect_same_bits(randn({n}, {.dtype = dtype}, generator), view::slice(whole, 0, 0, n));
    }
  }
}

TEST(FillTest, ConsecutiveFillsContinueTheStream) {
  Generator once(10), twice(10);
  const Tensor whole = rand({1024}, {}, once);
  expect_same_bits(rand({400}, {}, twice), view::slice(whole, 0, 0, 400));
  expect_same_bits(rand({624}, {}, twice), view::slice(whole, 0, 400));
  EXPECT_EQ(once.offset(), twice.offset());
}

TEST(FillTest, StridesDoNotChangeTheValues) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    testing::Random random(seed);
    const Tensor x = random.tensor(random.shape(4, 12));
    const Tensor y = random.strided(x);
    Generator a(seed), b(seed);
    normal_(x, 1, 2, a);
    normal_(y, 1, 2, b);
    expect_same_bits(x, y);
    EXPECT_EQ(a.offset(), b.offset());
  }
}

TEST(FillTest, StaysInsideOfAView) {
  const Tensor x = zeros({10, 10});
  uniform_(view::slice(view::slice(x, 0, 2, 5), 1, 1, 10, 3), 1, 2);
  const auto values = x.to_vector<float>();
  for (std::size_t i = 0; i < 10; ++i)
    for (std::size_t j = 0; j < 10; ++j) {
      const bool inside = 2 <= i && i < 5 && j % 3 == 1;
      ASSERT_EQ(values[i * 10 + j] != 0, inside) << i << ' ' << j;
    }
}

TEST(FillTest, CountsAsAChange) {
  const Tensor x = zeros({2});
  std::uint32_t before = x.version();
  const auto expect_counted = [&] { EXPECT_GT(x.version(), std::exchange(before, x.version())); };
  uniform_(x, 0, 1), expect_counted();
  normal_(x, 0, 1), expect_counted();
  exponential_(x), expect_counted();
  bernoulli_(x, 0.5), expect_counted();
}

TEST(FillTest, TakesTensorsWithoutElements) {
  Generator generator(1);
  EXPECT_EQ(randn({0, 3}, {}, generator).numel(), 0);
  EXPECT_EQ(generator.offset(), 0u);
}

TEST(GeneratorTest, ACopyReplays) {
  Generator generator(12);
  randn({5}, {}, generator);
  Generator copy = generator;
  expect_same_bits(randn({100}, {}, generator), randn({100}, {}, copy));
  Generator restored(generator.seed());
  restored.set_offset(generator.offset());
  EXPECT_EQ(restored.below(1000), generator.below(1000));
}

TEST(GeneratorTest, SeedsGiveDifferentStreams) {
  Generator a(1), b(2);
  EXPECT_NE(rand({4}, {}, a).to_vector<float>(), rand({4}, {}, b).to_vector<float>());
}

TEST(GeneratorTest, EachThreadStartsAlike) {
  manual_seed(0);
  const auto here = rand({8}).to_vector<float>();
  std::vector<float> there;
  std::thread([&] { there = rand({8}).to_vector<float>(); }).join();
  EXPECT_EQ(here, there);
  EXPECT_NE(rand({8}).to_vector<float>(), there);
  manual_seed(0);
  EXPECT_EQ(rand({8}).to_vector<float>(), there);
}

}  // namespace
}  // namespace ringrad
