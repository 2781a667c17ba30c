// The kernels behind argmax.h. Private to kernels/.

#pragma once

#include "core/tensor.h"
#include "kernels/reduce_plan.h"

namespace ringrad::kernels::cuda {

/// The positions of the best elements of each result's.
///
/// REQUIRES: one axis is reduced; an element for every result
void argmax(const Tensor& x, const ReducePlan& plan, std::int64_t* result, Where where);
void argmin(const Tensor& x, const ReducePlan& plan, std::int64_t* result, Where where);

}  // namespace ringrad::kernels::cuda
