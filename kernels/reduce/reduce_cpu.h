// The loops behind reduce.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/reduce/reduce_plan.h"

namespace ringrad::kernels::cpu {

/// result = sum x / divisor; integers are not divided.
void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result);

/// result = the product of the elements.
/// REQUIRES: x is float32, float64 or int64, and so is the result
void product(const ReducePlan& plan, const Tensor& x, const Tensor& result);

/// result = sum of x - center, or of its square.
/// REQUIRES: x is float32 or float64, center and result are float64 and have one layout
void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                    const Tensor& result);
void sum_squared_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                            const Tensor& result);

/// result = the largest or smallest element; NaN if any element is NaN.
void max(const ReducePlan& plan, const Tensor& x, const Tensor& result);
void min(const ReducePlan& plan, const Tensor& x, const Tensor& result);

}  // namespace ringrad::kernels::cpu
