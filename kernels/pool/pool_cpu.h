// The CPU pooling loops. Private to pool.cc.

#pragma once

#include <cstdint>

#include "ringrad/kernels/pool/pool_windows.h"

namespace ringrad::kernels::cpu {

/// Place: uint8_t or int32_t, wide enough for every place.
template <class T, class Place>
void max_pool(const PoolGeometry& g, const T* x, T* y, Place* places);
template <class T, class Place>
void max_pool_backward(const PoolGeometry& g, const T* grad_y, const Place* places, T* grad_x);
template <class T, class Place>
void max_pool_gather(const PoolGeometry& g, const T* x, const Place* places, T* y);

template <class T>
void avg_pool(const PoolGeometry& g, const T* x, T* y);
template <class T>
void avg_pool_backward(const PoolGeometry& g, const T* grad_y, T* grad_x);

}  // namespace ringrad::kernels::cpu
