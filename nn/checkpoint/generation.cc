#include "ringrad/nn/checkpoint/generation.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace ringrad::nn {
namespace {

std::atomic<std::int64_t>& current() {
  using std::chrono::microseconds;
  static std::atomic<std::int64_t> generation =
      std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  return generation;
}

}  // namespace

std::int64_t run_generation() { return current(); }

void raise_generation(std::int64_t least) {
  least = std::min(least, kLastGeneration);
  std::int64_t known = current();
  while (known < least && !current().compare_exchange_weak(known, least)) {
  }
}

void continue_from_generation(std::int64_t loaded) {
  if (loaded > run_generation()) raise_generation(loaded + 1);
}

std::string generation_digits(std::int64_t generation) {
  const std::string digits = std::to_string(generation);
  return std::string(kGenerationDigits - digits.size(), '0') + digits;
}

}  // namespace ringrad::nn
