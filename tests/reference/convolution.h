// The definition of convolution and its three gradients, in double, on contiguous
// (B, C, D, H, W) data; an image has D = 1.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringrad::reference {

struct Convolution {
  std::int64_t B, C, H, W, K, R, S;
  std::int64_t stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0;
  std::int64_t dilation_h = 1, dilation_w = 1, groups = 1;
  std::int64_t D = 1, U = 1, stride_d = 1, padding_d = 0, dilation_d = 1;

  std::int64_t Z() const { return (D + 2 * padding_d - dilation_d * (U - 1) - 1) / stride_d + 1; }
  std::int64_t P() const { return (H + 2 * padding_h - dilation_h * (R - 1) - 1) / stride_h + 1; }
  std::int64_t Q() const { return (W + 2 * padding_w - dilation_w * (S - 1) - 1) / stride_w + 1; }

  /// visit(i, j, l) for every product x[i] * weight[j] that is a term of y[l].
  template <class Visit>
  void for_each_term(Visit visit) const {
    const std::int64_t inputs = C / groups, outputs = K / groups;
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t k = 0; k < K; ++k)
        for (std::int64_t z = 0; z < Z(); ++z)
          for (std::int64_t p = 0; p < P(); ++p)
            for (std::int64_t q = 0; q < Q(); ++q)
              for (std::int64_t c = 0; c < inputs; ++c)
                for (std::int64_t u = 0; u < U; ++u)
                  for (std::int64_t r = 0; r < R; ++r)
                    for (std::int64_t s = 0; s < S; ++s) {
                      const std::int64_t d = z * stride_d + u * dilation_d - padding_d;
                      const std::int64_t h = p * stride_h + r * dilation_h - padding_h;
                      const std::int64_t w = q * stride_w + s * dilation_w - padding_w;
                      if (d < 0 || d >= D || h < 0 || h >= H || w < 0 || w >= W) continue;
                      const std::int64_t channel = k / outputs * inputs + c;
                      visit(place(b * C + channel, d, h, w, D, H, W),
                            place(k * inputs + c, u, r, s, U, R, S),
                            place(b * K + k, z, p, q, Z(), P(), Q()));
                    }
  }

  std::vector<double> forward(const std::vector<double>& x, const std::vector<double>& weight,
                              const std::vector<double>& bias) const {
    std::vector<double> y(static_cast<std::size_t>(B * K * pixels()), 0.0);
    for (std::size_t l = 0; l < y.size() && !bias.empty(); ++l)
      y[l] = bias[l / static_cast<std::size_t>(pixels()) % bias.size()];
    for_each_term([&](std::size_t i, std::size_t j, std::size_t l) { y[l] += x[i] * weight[j]; });
    return y;
  }
  std::vector<double> backward_input(const std::vector<double>& grad_y,
                                     const std::vector<double>& weight) const {
    std::vector<double> grad(static_cast<std::size_t>(B * C * D * H * W), 0.0);
    for_each_term(
        [&](std::size_t i, std::size_t j, std::size_t l) { grad[i] += grad_y[l] * weight[j]; });
    return grad;
  }
  std::vector<double> backward_weight(const std::vector<double>& grad_y,
                                      const std::vector<double>& x) const {
    std::vector<double> grad(static_cast<std::size_t>(K * (C / groups) * U * R * S), 0.0);
    for_each_term(
        [&](std::size_t i, std::size_t j, std::size_t l) { grad[j] += grad_y[l] * x[i]; });
    return grad;
  }
  std::vector<double> backward_bias(const std::vector<double>& grad_y) const {
    std::vector<double> grad(static_cast<std::size_t>(K), 0.0);
    for (std::size_t l = 0; l < grad_y.size(); ++l)
      grad[l / static_cast<std::size_t>(pixels()) % grad.size()] += grad_y[l];
    return grad;
  }

 private:
  std::int64_t pixels() const { return Z() * P() * Q(); }
  static std::size_t place(std::int64_t channel, std::int64_t d, std::int64_t h, std::int64_t w,
                           std::int64_t D, std::int64_t H, std::int64_t W) {
    return static_cast<std::size_t>(((channel * D + d) * H + h) * W + w);
  }
};

}  // namespace ringrad::reference
