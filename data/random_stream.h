// Random streams: one generator for every (seed, epoch, item). So no draw depends on the number of
// threads that make batches, on how batches are cut, or on earlier draws.
//
//     key    = 64 bits of Philox with counter (epoch, item) under `seed`
//     stream = Generator(key)

#pragma once

#include <cstdint>
#include <utility>

#include "ringrad/core/random/philox.h"
#include "ringrad/core/random/random.h"

namespace ringrad {

/// Mixes three numbers into one, such that different triples give unrelated results.
constexpr std::uint64_t mix_seed(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  constexpr auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  constexpr auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto words = philox4x32_10({low(a), high(a), low(b), high(b)}, {low(seed), high(seed)});
  return words[0] | std::uint64_t{words[1]} << 32;
}

/// The stream of one item, such as a sample, in one epoch.
inline Generator random_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t item) {
  return Generator(
      mix_seed(seed, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(item)));
}

/// The stream for draws made once per epoch: no sample has its number, -1.
inline Generator random_stream(std::uint64_t seed, std::int64_t epoch) {
  return random_stream(seed, epoch, -1);
}

/// Makes `own` the calling thread's default_generator() until the end of the scope.
class DefaultGeneratorGuard {
 public:
  explicit DefaultGeneratorGuard(Generator& own) : own_(own) { exchange(); }
  ~DefaultGeneratorGuard() { exchange(); }
  DefaultGeneratorGuard(const DefaultGeneratorGuard&) = delete;
  DefaultGeneratorGuard& operator=(const DefaultGeneratorGuard&) = delete;

 private:
  void exchange() { std::swap(own_, default_generator()); }

  Generator& own_;
};

/// A multiple of 2^-53 in [0, 1).
inline double draw_unit(Generator& generator) {
  constexpr std::uint64_t kSteps = std::uint64_t{1} << 53;
  return static_cast<double>(generator.below(kSteps)) / static_cast<double>(kSteps);
}

}  // namespace ringrad
