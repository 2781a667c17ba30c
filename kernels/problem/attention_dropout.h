// Which of attention's probabilities dropout keeps.

#pragma once

#include <cmath>
#include <cstdint>

#include "ringrad/core/capture.h"
#include "ringrad/core/random/random.h"
#include "ringrad/kernels/problem/attention_problem.h"

namespace ringrad::kernels {

/// Position in a random stream: probability i of (B, H, T, S), in row-major order, is kept or
/// dropped by the word that bernoulli_() would use for element i. So backward redraws the mask.
struct AttentionDropout {
  double p = 0;
  std::uint64_t seed = 0;
  Replayed<std::uint64_t> counter = {};

  /// Words up to this one keep a probability; -1 if none does.
  std::int64_t last_kept_word() const { return std::llround((1 - p) * 0x1p32) - 1; }
  /// The factor of the probabilities that are kept.
  double scale() const { return p < 1 ? 1 / (1 - p) : 0; }

  /// Reserves words for B * H * T * S draws, if p > 0.
  static AttentionDropout reserve(const AttentionProblem& problem, double p, Generator& generator);
};

}  // namespace ringrad::kernels
