// The definition of convolution and its three gradients, in double, on contiguous (B, C, H, W)
// data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringrad::reference {

struct Convolution {
  std::int64_t B, C, H, W, K, R, S;
  std::int64_t stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0;
  std::int64_t dilation_h = 1, dilation_w = 1, groups = 1;

  std::int64_t P() const { return (H + 2 * padding_h - dilation_h * (R - 1) - 1) / stride_h + 1; }
  std::int64_t Q() const { return (W + 2 * padding_w - dilation_w * (S - 1) - 1) / stride_w + 1; }

  /// visit(i, j, l) for every product x[i] * weight[j] that is a term of y[l].
  template <class Visit>
  void for_each_term(Visit visit) const {
    const std::int64_t inputs = C / groups, outputs = K / groups;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t k = 0; k < K; ++k)
        for (std::int64_t p = 0; p < P(); ++p)
          for (std::int64_t q = 0; q < Q(); ++q)
            for (std::int64_t c = 0; c < inputs; ++c)
              for (std::int64_t r = 0; r < R; ++r)
                for (std::int64_t s = 0; s < S; ++s) {
                  const std::int64_t h = p * stride_h + r * dilation_h - padding_h;
                  const std::int64_t w = q * stride_w + s * dilation_w - padding_w;
                  if (h < 0 || h >= H || w < 0 || w >= W) continue;
                  const std::int64_t channel = k / outputs * inputs + c;
                  visit(static_cast<std::size_t>(((b * C + channel) * H + h) * W + w),
                        static_cast<std::size_t>(((k * inputs + c) * R + r) * S + s),
                        static_cast<std::size_t>(((b * K + k) * P() + p) * Q() + q));
                }
  }

  std::vector<double> forward(const std::vector<double>& x, const std::vector<double>& weight,
                              const std::vector<double>& bias) const {
    std::vector<double> y(static_cast<std::size_t>(B * K * P() * Q()), 0.0);
    for (std::size_t l = 0; l < y.size() && !bias.empty(); ++l)
      y[l] = bias[l / static_cast<std::size_t>(P() * Q()) % bias.size()];
    for_each_term([&](std::size_t i, std::size_t j, std::size_t l) { y[l] += x[i] * weight[j]; });
    return y;
  }
  std::vector<double> backward_input(const std::vector<double>& grad_y,
                                     const std::vector<double>& weight) const {
    std::vector<double> grad(static_cast<std::size_t>(B * C * H * W), 0.0);
    for_each_term(
        [&](std::size_t i, std::size_t j, std::size_t l) { grad[i] += grad_y[l] * weight[j]; });
    return grad;
  }
  std::vector<double> backward_weight(const std::vector<double>& grad_y,
                                      const std::vector<double>& x) const {
    std::vector<double> grad(static_cast<std::size_t>(K * (C / groups) * R * S), 0.0);
    for_each_term(
        [&](std::size_t i, std::size_t j, std::size_t l) { grad[j] += grad_y[l] * x[i]; });
    return grad;
  }
  std::vector<double> backward_bias(const std::vector<double>& grad_y) const {
    std::vector<double> grad(static_cast<std::size_t>(K), 0.0);
    for (std::size_t l = 0; l < grad_y.size(); ++l)
      grad[l / static_cast<std::size_t>(P() * Q()) % grad.size()] += grad_y[l];
    return grad;
  }
};

}  // namespace ringrad::reference
