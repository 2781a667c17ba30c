// Cross entropy of one example, in double.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringrad/tests/reference/softmax.h"

namespace ringrad::reference {

/// The weights of the log probabilities of an example of class `target`:
/// q_c = (1 - s) w_t [c = t] + s / C w_c
inline std::vector<double> target_distribution(std::int64_t target,
                                               const std::vector<double>& weight,
                                               double smoothing) {
  std::vector<double> q;
  for (const double w : weight) q.push_back(smoothing / static_cast<double>(weight.size()) * w);
  const auto t = static_cast<std::size_t>(target);
  q[t] += (1 - smoothing) * weight[t];
  return q;
}

/// -sum_c q_c log softmax(x)_c
inline double cross_entropy(const std::vector<double>& x, const std::vector<double>& q) {
  const std::vector<double> log_p = log_softmax(x);
  double loss = 0;
  for (std::size_t c = 0; c < x.size(); ++c) loss -= q[c] * log_p[c];
  return loss;
}

/// d cross_entropy / dx_c, by the chain rule through log_softmax
inline std::vector<double> cross_entropy_backward(const std::vector<double>& x,
                                                  const std::vector<double>& q) {
  std::vector<double> grad_log_p;
  for (const double value : q) grad_log_p.push_back(-value);
  return log_softmax_backward(grad_log_p, log_softmax(x));
}

}  // namespace ringrad::reference
