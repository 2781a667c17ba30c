// The kernels behind argmax.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/reduce/reduce_plan.h"

namespace ringrad::kernels::cuda {

/// For each result, the position of its best element.
///
/// REQUIRES: one axis is reduced; every result has at least one element
void argmax(const Tensor& x, const ReducePlan& plan, std::int64_t* result, Where where);
void argmin(const Tensor& x, const ReducePlan& plan, std::int64_t* result, Where where);

}  // namespace ringrad::kernels::cuda
