#include "ringrad/kernels/problem/attention_dropout.h"

namespace ringrad::kernels {

AttentionDropout AttentionDropout::reserve(const AttentionProblem& problem, double p,
                                           Generator& generator) {
  if (p == 0) return {};
  const auto next = [&generator, words = problem.B * problem.H * problem.T * problem.S] {
    return generator.reserve(static_cast<std::uint64_t>(words));
  };
  if (is_capturing()) return {p, generator.seed(), {0, replayed_value<std::uint64_t>(next)}};
  return {p, generator.seed(), {next(), nullptr}};
}

}  // namespace ringrad::kernels
