// The CPU normalizations over rows of C neighbours. Private to row_norm.cc.

#pragma once

#include <cstdint>

namespace ringrad::kernels::cpu {

/// kCentred: layer norm; else RMS norm, in which mean and bias are null. weight and bias: C values
/// each, or null. mean and rstd: one value per row.
template <bool kCentred, class T>
void row_norm(std::int64_t rows, std::int64_t C, T eps, const T* x, const T* weight, const T* bias,
              T* y, T* mean, T* rstd);

/// grad_weight and grad_bias: C values each; RMS norm has no grad_bias.
template <bool kCentred, class T>
void row_norm_backward(std::int64_t rows, std::int64_t C, const T* x, const T* weight,
                       const T* mean, const T* rstd, const T* grad_y, T* grad_x, T* grad_weight,
                       T* grad_bias);

}  // namespace ringrad::kernels::cpu
