// The kernels behind index_select.h. Private to kernels/index.
//
// Like their CPU counterparts, except that indices may be out of range: such positions are 0 in a
// selection and are left out of sums.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels::cuda {

void select_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   const Tensor& indices, const Tensor& y, Where where);

/// Throws ValueError for 2^31 indices or more.
void sum_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Tensor& indices, std::int64_t excluded, const Tensor& y, Where where);

}  // namespace ringrad::kernels::cuda
