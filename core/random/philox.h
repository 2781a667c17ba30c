// Philox4x32-10: a block cipher used as a random number generator. Encrypting 0, 1, 2, ... under a
// key gives words that pass every known statistical test. Any word can be computed without those
// before it.
//
//     one round:   (c0, c1, c2, c3) -> (hi(B c2) ^ c1 ^ k0, lo(B c2), hi(A c0) ^ c3 ^ k1, lo(A c0))
//     ten rounds;  after each, the key (k0, k1) advances by the Weyl constants
//
// hi and lo are the upper and lower halves of a 32 x 32 bit product. The cipher uses integers only,
// so every machine gives the same bits.
//
// Paper: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section
// 3.3.

#pragma once

#include <array>
#include <cstdint>

namespace ringrad {

/// The ten-round cipher itself: encrypts four counter words under two key words.
constexpr std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                                     std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplierA = 0xD2511F53;
  constexpr std::uint64_t kMultiplierB = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // the golden ratio's fraction, times 2^32
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // the fraction of sqrt(3), times 2^32
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = kMultiplierA * counter[0];
    const std::uint64_t b = kMultiplierB * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

/// The four words of the stream of `seed` at `counter`. The whole library numbers its random words
/// this way.
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t counter) {
  return philox4x32_10(
      {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace ringrad
