// The CPU layer normalization over rows of C neighbours. Private to layer_norm.cc.

#pragma once

#include <cstdint>

namespace ringrad::kernels::cpu {

/// weight and bias: C values each, or null. mean and rstd: one value per row.
template <class T>
void layer_norm(std::int64_t rows, std::int64_t C, T eps, const T* x, const T* weight,
                const T* bias, T* y, T* mean, T* rstd);

/// grad_weight and grad_bias: C values each.
template <class T>
void layer_norm_backward(std::int64_t rows, std::int64_t C, const T* x, const T* weight,
                         const T* mean, const T* rstd, const T* grad_y, T* grad_x, T* grad_weight,
                         T* grad_bias);

}  // namespace ringrad::kernels::cpu
