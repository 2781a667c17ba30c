// The CPU RMS normalization over rows of C neighbours. Private to rms_norm.cc.

#pragma once

#include <cstdint>

namespace ringrad::kernels::cpu {

/// weight: C values, or null. rstd: one value per row.
template <class T>
void rms_norm(std::int64_t rows, std::int64_t C, T eps, const T* x, const T* weight, T* y, T* rstd);

/// grad_weight: C values.
template <class T>
void rms_norm_backward(std::int64_t rows, std::int64_t C, const T* x, const T* weight,
                       const T* rstd, const T* grad_y, T* grad_x, T* grad_weight);

}  // namespace ringrad::kernels::cpu
