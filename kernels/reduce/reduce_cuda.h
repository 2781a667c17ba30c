// The kernels behind reduce.h. Private to kernels/.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/reduce/reduce_plan.h"

namespace ringrad::kernels::cuda {

/// As their namesakes in reduce_cpu.h, for tensors on a GPU.
void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result,
         Where where);
void product(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where);
void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                    const Tensor& result, Where where);
void sum_squared_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                            const Tensor& result, Where where);
void max(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where);
void min(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where);

}  // namespace ringrad::kernels::cuda
