// Attention and its gradients by plain loops over all scores, in double.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace ringrad::reference {

/// Row-major q (B, H, T, D), k (B, Hkv, S, D), v (B, Hkv, S, Dv); added and factors (B, H, T, S).
struct Attention {
  std::size_t B, H, Hkv, T, S, D, Dv;
  double scale;
  std::vector<double> q, k, v;
  std::vector<double> added;    ///< to the scores; -inf forbids
  std::vector<double> factors;  ///< of the probabilities: dropout

  struct Gradients {
    std::vector<double> q, k, v;
  };

  std::vector<double> output() const {
    std::vector<double> y(B * H * T * Dv, 0);
    for_each_row([&](std::size_t row, std::size_t kv, const std::vector<double>& p) {
      for (std::size_t s = 0; s < S; ++s)
        for (std::size_t d = 0; d < Dv; ++d)
          y[row * Dv + d] += p[s] * factors[row * S + s] * v[(kv * S + s) * Dv + d];
    });
    return y;
  }

  Gradients gradients(const std::vector<double>& grad) const {
    Gradients result{std::vector<double>(q.size(), 0), std::vector<double>(k.size(), 0),
                     std::vector<double>(v.size(), 0)};
    for_each_row([&](std::size_t row, std::size_t kv, const std::vector<double>& p) {
      std::vector<double> grad_p(S, 0);
      double mean = 0;
      for (std::size_t s = 0; s < S; ++s) {
        for (std::size_t d = 0; d < Dv; ++d) {
          const double factor = factors[row * S + s], g = grad[row * Dv + d];
          grad_p[s] += factor * g * v[(kv * S + s) * Dv + d];
          result.v[(kv * S + s) * Dv + d] += p[s] * factor * g;
        }
        mean += p[s] * grad_p[s];
      }
      for (std::size_t s = 0; s < S; ++s)
        for (std::size_t d = 0; d < D; ++d) {
          const double g = scale * p[s] * (grad_p[s] - mean);
          result.q[row * D + d] += g * k[(kv * S + s) * D + d];
          result.k[(kv * S + s) * D + d] += g * q[row * D + d];
        }
    });
    return result;
  }

 private:
  /// body(row of q, head of k, probabilities)
  template <class Body>
  void for_each_row(Body body) const {
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    for (std::size_t row = 0; row < B * H * T; ++row) {
      const std::size_t b = row / (H * T), h = row / T % H, kv = b * Hkv + h / (H / Hkv);
      std::vector<double> p(S);
      double largest = kNever, sum = 0;
      for (std::size_t s = 0; s < S; ++s) {
        double score = 0;
        for (std::size_t d = 0; d < D; ++d) score += q[row * D + d] * k[(kv * S + s) * D + d];
        p[s] = scale * score + added[row * S + s];
        largest = std::max(largest, p[s]);
      }
      for (double& value : p) {
        value = largest == kNever ? 0 : std::exp(value - largest);
        sum += value;
      }
      if (sum > 0)
        for (double& value : p) value /= sum;
      body(row, kv, p);
    }
  }
};

}  // namespace ringrad::reference
