// The kernels behind pool.h. Private to kernels/pool*.
//
// REQUIRES: arguments are checked. Values have one floating dtype, places are uint8 or int32. All
// tensors have the memory order that the geometry describes, without gaps.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/pool/pool_windows.h"

namespace ringrad::kernels::cuda {

void max_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, const Tensor& places,
              Where where);
void max_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& places,
                       const Tensor& grad_x, Where where);
void max_pool_gather(const PoolGeometry& g, const Tensor& x, const Tensor& places, const Tensor& y,
                     Where where);

void avg_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, Where where);
void avg_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where);

}  // namespace ringrad::kernels::cuda
