// ReducePlan: where in memory the elements of each result lie; and what reduces by it. Private to
// kernels/.
//
//     x      (B, C, H, W)      result (C), summed over B, H and W
//
//     kept       C    steps of H W              one result each
//     reduced    B    steps of C H W            two loops for every result; the inner one
//                HW   steps of 1                is a run of neighbours
//     width      1                              in channels_last: C, a row of neighbouring results

#pragma once

#include <cstdint>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/loop_nest.h"

namespace ringrad::kernels {

/// The results are dense in memory, in the order of x's axes:
///
///     result[kept][column] = reduction over r of x[kept offset + r offset + column]
///
/// for columns in [0, width). `width` is the extent of x's innermost axis if that axis is kept,
/// else 1.
struct ReducePlan {
  LoopNest<1> kept;     ///< one row per kept position; its innermost axis has one element
  LoopNest<1> reduced;  ///< rows are runs of equally spaced elements
  std::int64_t width = 1;
  std::int64_t length = 1;  ///< elements per result
  std::int64_t num_results = 1;
};

/// REQUIRES: x is not empty; its innermost axis in memory has stride 1; `result_strides` are 0 for
///           exactly the reduced axes, the others are dense and in the order of x's
inline ReducePlan make_reduce_plan(const Tensor& x, const Strides& result_strides) {
  ReducePlan plan;
  const auto nest = make_loop_nest<2>(x.shape(), {&x.strides(), &result_strides});
  const auto append = [](LoopNest<1>& to, std::int64_t extent, std::int64_t stride) {
    to.extents[static_cast<unsigned>(to.axes)] = extent;
    to.strides[static_cast<unsigned>(to.axes++)] = {stride};
  };
  for (int i = 0; i < nest.axes; ++i) {
    const auto axis = static_cast<unsigned>(i);
    const auto [stride, result_stride] = nest.strides[axis];
    if (result_stride == 0)
      append(plan.reduced, nest.extents[axis], stride);
    else if (i + 1 < nest.axes)
      append(plan.kept, nest.extents[axis], stride);
    else
      plan.width = nest.extents[axis];
  }
  append(plan.kept, 1, 0);
  plan.length = plan.reduced.num_rows() * plan.reduced.row_extent();
  plan.num_results = plan.kept.num_rows() * plan.width;
  return plan;
}

/// The plan for x contiguous, seen as (outer, length, width), with results (outer, width).
inline ReducePlan make_reduce_plan(std::int64_t outer, std::int64_t length, std::int64_t width) {
  ReducePlan plan;
  plan.kept.axes = 2;
  plan.kept.extents = {outer, 1};
  plan.kept.strides = {{{length * width}, {0}}};
  plan.reduced.axes = 1;
  plan.reduced.extents = {length};
  plan.reduced.strides = {{{width}}};
  plan.width = width;
  plan.length = length;
  plan.num_results = outer * width;
  return plan;
}

// The loops and the kernels behind reduce.h.
namespace cpu {

/// result = sum x / divisor; integers are not divided.
void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result,
         Where where);

/// result = the product of the elements.
/// REQUIRES: x is float32, float64 or int64, and so is the result
void product(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where);

/// result = sum of x - center, or of its square.
/// REQUIRES: x is float32 or float64, center and result are float64 and have one layout
void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center, bool squared,
                    const Tensor& result, Where where);

/// result = the largest or smallest element; NaN if any element is NaN. A template, so that
/// programs that choose the largest alone do not link the other.
template <bool kLargest>
void extreme(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where);

}  // namespace cpu

namespace cuda {

/// As their namesakes in cpu, for tensors on a GPU.
void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result,
         Where where);
void product(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where);
void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center, bool squared,
                    const Tensor& result, Where where);
template <bool kLargest>
void extreme(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
