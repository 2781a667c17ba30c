// The loops behind reduce.h. Private to kernels/.

#pragma once

#include "core/tensor.h"
#include "kernels/reduce_plan.h"

namespace ringrad::kernels::cpu {

/// result = sum x / divisor; integers are not divided.
void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result);

/// result = sum (x - center)^2 / divisor.    REQUIRES: float32 or float64; center as result
void sum_squared_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                            double divisor, const Tensor& result);

/// result = the largest, or smallest; NaN if there is one.
void max(const ReducePlan& plan, const Tensor& x, const Tensor& result);
void min(const ReducePlan& plan, const Tensor& x, const Tensor& result);

}  // namespace ringrad::kernels::cpu
