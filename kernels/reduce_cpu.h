// The loops behind reduce.h. Private to kernels/.

#pragma once

#include "core/tensor.h"
#include "kernels/reduce_plan.h"

namespace ringrad::kernels::cpu {

/// result = sum x / divisor; integers are not divided.
void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result);

/// result = sum x - center, or its square.    REQUIRES: x and center float32 or float64, result float64;
/// center lies as result
void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                    const Tensor& result);
void sum_squared_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                            const Tensor& result);

/// result = the largest, or smallest; NaN if there is one.
void max(const ReducePlan& plan, const Tensor& x, const Tensor& result);
void min(const ReducePlan& plan, const Tensor& x, const Tensor& result);

}  // namespace ringrad::kernels::cpu
