#include "ringrad/kernels/divisor.h"

#include <algorithm>
#include <limits>

#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using testing::Random;

template <class Int>
void expect_divides(Int n, Int d) {
  EXPECT_EQ(n / Divisor<Int>(d), n / d) << n << " / " << d;
}

TEST(DivisorTest, DividesAsIntegersDo) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  Random random(1);
  const auto number = [&] {  // of any size
    return static_cast<std::int32_t>(random.integer(0, kMost) >> random.integer(0, 31));
  };
  for (int i = 0; i < 100'000; ++i) {
    const std::int32_t d = std::max(number(), 1), n = number();
    expect_divides<std::int32_t>(n, d);
    expect_divides<std::int64_t>(n, d);
    expect_divides<std::int32_t>(n / d * d, d);
    if (n / d > 0) expect_divides<std::int32_t>(n / d * d - 1, d);
  }
}

TEST(DivisorTest, DividesAtTheEndsOfTheRange) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t d : {1, 2, 3, 1 << 30, (1 << 30) + 1, kMost - 1, kMost})
    for (const std::int32_t n : {0, 1, 2, (1 << 30) - 1, 1 << 30, kMost - 1, kMost})
      expect_divides(n, d);
}

TEST(DivisorTest, ReadsAsItsNumber) {
  constexpr Divisor<std::int32_t> d = 7;
  static_assert(d == 7 && d * 2 == 14 && 20 / d == 2);
}

}  // namespace
}  // namespace ringrad::kernels
