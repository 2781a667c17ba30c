#include "ringrad/kernels/elementwise/dropout.h"

#include <cmath>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::expect_close;
using ringrad::testing::expect_same_bits;
using ringrad::testing::expect_throws;
using ringrad::testing::Random;

constexpr DType kFloats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

std::int64_t kept(const Tensor& mask) {
  std::int64_t count = 0;
  for (const int value : mask.to_vector<int>()) count += value;
  return count;
}

TEST(DropoutTest, KeepsElementsAtTheGivenRate) {
  Generator generator(1);
  const std::int64_t n = 100000;
  for (const double p : {0.1, 0.5, 0.9}) {
    const auto count = static_cast<double>(kept(dropout_mask(empty({n}), p, generator)));
    const double deviation = std::sqrt(static_cast<double>(n) * p * (1 - p));
    EXPECT_NEAR(count, static_cast<double>(n) * (1 - p), 5 * deviation) << p;
  }
}

TEST(DropoutTest, KeepsAllOrNothingAtTheEnds) {
  Generator generator(2);
  EXPECT_EQ(kept(dropout_mask(empty({1000}), 0, generator)), 1000);
  EXPECT_EQ(kept(dropout_mask(empty({1000}), 1, generator)), 0);
  EXPECT_EQ(dropout_scale(0), 1);
  EXPECT_EQ(dropout_scale(0.75), 4);
  EXPECT_EQ(dropout_scale(1), 0);
}

TEST(DropoutTest, DropsTheSameElementsInEveryMemoryOrder) {
  Generator a(3), b(3);
  const Tensor x = empty({2, 3, 4, 5}), y = empty({2, 3, 4, 5}, {.layout = Layout::channels_last});
  expect_same_bits(dropout_mask(x, 0.5, a), dropout_mask(y, 0.5, b));
}

TEST(DropoutTest, DrawsNewMasksFromOneGenerator) {
  Generator generator(4);
  const Tensor first = dropout_mask(empty({64}), 0.5, generator);
  const Tensor second = dropout_mask(empty({64}), 0.5, generator);
  EXPECT_NE(first.to_vector<int>(), second.to_vector<int>());
}

TEST(DropoutTest, ScalesWhatItKeeps) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const Shape shape = seed < 4 ? Shape{1000 + random.integer(0, 9)} : random.shape(4, 9);
    const Tensor x = random.tensor(shape, kFloats[seed % 4]);
    const Tensor mask = dropout_mask(x, 0.5, random.generator());
    auto want = x.to_vector<double>();
    const auto keep = mask.to_vector<int>();
    for (std::size_t i = 0; i < want.size(); ++i) want[i] *= keep[i] ? 1.25 : 0;
    expect_close(apply_mask(x, mask, 1.25), want);
    expect_close(apply_mask(random.strided(x), random.strided(mask), 1.25), want);
  }
}

TEST(DropoutTest, DropsNan) {
  const Tensor x = full({3}, std::numeric_limits<double>::quiet_NaN());
  expect_close(apply_mask(x, zeros({3}, {.dtype = DType::uint8}), 2), {0, 0, 0});
}

TEST(DropoutTest, ThrowsForProbabilitiesOutsideOfZeroToOne) {
  Generator generator(5);
  for (const double p : {-0.1, 1.1, std::nan("")})
    expect_throws<ValueError>([&] { dropout_mask(zeros({2}), p, generator); },
                              "dropout: p must be in [0, 1]; got ");
  expect_throws<DTypeError>(
      [&] { dropout_mask(zeros({2}, {.dtype = DType::int32}), 0.5, generator); }, "got int32");
}

}  // namespace
}  // namespace ringrad::kernels
