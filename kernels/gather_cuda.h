// The kernels behind gather.h. Private to kernels/gather*.
//
// As their counterparts on the CPU, but that indices may be out of range: such elements are 0 when
// gathered, and are not added anywhere.

#pragma once

#include "core/tensor.h"

namespace ringrad::kernels::cuda {

/// REQUIRES: index is contiguous; y is contiguous and like index
void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y, Where where);

/// REQUIRES: index is contiguous; y holds x already, is dense, and has the dtype that src is added
/// up in
void scatter_add(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Where where);

}  // namespace ringrad::kernels::cuda
