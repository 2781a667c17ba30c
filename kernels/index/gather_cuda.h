// The kernels behind gather.h. Private to kernels/index.
//
// Like their CPU counterparts, except that indices may be out of range: such elements are 0 when
// gathered and are not scattered.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

/// REQUIRES: index is contiguous; y is contiguous and like index
void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y, Where where);

/// REQUIRES: index is contiguous; y already holds x, is dense, and has the dtype in which src is
///           summed
void scatter_add(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Where where);

/// REQUIRES: index is contiguous; y already holds x and has src's dtype
void scatter(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Where where);

}  // namespace ringrad::kernels::cuda
