#include "ringrad/core/random/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace ringrad {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the cipher's authors publish with their implementation, Random123.
TEST(PhiloxTest, GivesThePublishedAnswers) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, SeedAndCounterUseAllTheirBits) {
  std::set<Words> seen{philox(0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_TRUE(seen.insert(philox(0, std::uint64_t{1} << bit)).second) << bit;
    EXPECT_TRUE(seen.insert(philox(std::uint64_t{1} << bit, 0)).second) << bit;
  }
}

TEST(PhiloxTest, IsKnownAtCompileTime) { static_assert(philox(0, 0)[0] == 0x6627e8d5); }

}  // namespace
}  // namespace ringrad
