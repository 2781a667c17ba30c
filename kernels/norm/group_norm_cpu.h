// The CPU group normalization. Private to group_norm.cc.

#pragma once

#include <cstdint>

namespace ringrad::kernels::cpu {

/// x is (B, G, K, S) with K channels per group.
struct Groups {
  std::int64_t B, G, K, S;
};

/// weight and bias: G * K values each, or null. mean and rstd: one value per example and group.
template <class T>
void group_norm(const Groups& groups, T eps, const T* x, const T* weight, const T* bias, T* y,
                T* mean, T* rstd);

/// grad_weight and grad_bias: G * K values each.
template <class T>
void group_norm_backward(const Groups& groups, const T* x, const T* weight, const T* mean,
                         const T* rstd, const T* grad_y, T* grad_x, T* grad_weight, T* grad_bias);

}  // namespace ringrad::kernels::cpu
