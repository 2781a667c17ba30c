// The loops behind reduce.h. Private to kernels/.

#pragma once

#include "core/tensor.h"
#include "kernels/loop_nest.h"

namespace ringrad::kernels::cpu {

/// Where the elements of each result lie in x. The results lie densely in memory, in the order of
/// x's axes:
///
///     result[kept][column] = reduction over r of x[kept offset + r offset + column]
///
/// for columns in [0, width). `width` is the extent of x's innermost axis if that one is kept,
/// else 1.
struct ReducePlan {
  LoopNest<1> kept;     ///< one row per kept position; its own innermost axis has one element
  LoopNest<1> reduced;  ///< rows are runs of elements at one distance
  std::int64_t width = 1;
  std::int64_t num_results = 1;
};

/// REQUIRES: x holds an element; its innermost axis in memory has stride 1; strides of 0 exactly
///           along reduced axes in `result_strides`, the others dense and in the order of x's
ReducePlan make_reduce_plan(const Tensor& x, const Strides& result_strides);

/// result = sum x / divisor; integers are not divided.
void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result);

/// result = sum (x - center)^2 / divisor.    REQUIRES: float32 or float64; center as result
void sum_squared_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                            double divisor, const Tensor& result);

/// result = the largest, or smallest; NaN if there is one.
void max(const ReducePlan& plan, const Tensor& x, const Tensor& result);
void min(const ReducePlan& plan, const Tensor& x, const Tensor& result);

}  // namespace ringrad::kernels::cpu
