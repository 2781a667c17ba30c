// The loops of unary elementwise rows on CPUs, for the sources that instantiate rows. Private to
// kernels/elementwise/*.cc.

#pragma once

#include "ringrad/core/simd.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/elementwise/elementwise_cuda.h"
#include "ringrad/kernels/elementwise/elementwise_rules.h"
#include "ringrad/kernels/elementwise/map_cpu.h"

namespace ringrad::kernels {
namespace unary_rows {

template <class Op, class T>
using Result = elementwise::UnaryResult<Op, T>;

template <class Op, class T>
RINGRAD_CLONES void forward_loop(const void* op_address, void* out, const void* const* in,
                                 std::int64_t n) {
  const Op op = *static_cast<const Op*>(op_address);
  const T* x = static_cast<const T*>(in[0]);
  auto* y = static_cast<Result<Op, T>*>(out);
  RINGRAD_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = op.forward(x[i]);
}

template <class Op, class T>
RINGRAD_CLONES void backward_loop(const void* op_address, void* out, const void* const* in,
                                  std::int64_t n) {
  const Op op = *static_cast<const Op*>(op_address);
  const T* grad_output = static_cast<const T*>(in[0]);
  const T* saved = static_cast<const T*>(in[1]);
  T* grad_input = static_cast<T*>(out);
  RINGRAD_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) grad_input[i] = op.backward(grad_output[i], saved[i]);
}

template <class Op>
cpu::Function forward_function(const Op& op, DType dtype) {
  const DType math = math_dtype(dtype);
  return elementwise::dispatch<Op::kDomain>(math, [&]<class T>() -> cpu::Function {
    return {forward_loop<Op, T>, &op, {math}, dtype_of<Result<Op, T>>};
  });
}

template <class Op>
void compute(const Op& op, DType dtype, const Tensor& x, const Tensor& y, Where where) {
  if (y.device().is_cuda()) return cuda::unary(op, dtype, x, y, where);
  cpu::map(forward_function(op, dtype), y, {&x});
}

// The dtype in which op computes x.
template <class Op>
DType dtype_for(const Op& op, const Tensor& x, Where where) {
  DType dtype = x.dtype(where);
  if constexpr (requires { op.promoted(dtype, where); }) dtype = op.promoted(dtype, where);
  return elementwise::compute_dtype(Op::kName, Op::kDomain, dtype, where);
}

}  // namespace unary_rows

template <class Op>
Tensor unary(const Op& op, const Tensor& x, Where where) {
  if constexpr (elementwise::kComputesFloats<Op>) {
    if (elementwise::are_tiny(where, x)) {
      using Y = unary_rows::Result<Op, float>;
      Tensor y = empty_like(x, dtype_of<Y>, where);
      const float* from = x.data<float>();
      Y* to = y.data<Y>();
      for (std::int64_t i = 0; i < x.numel(); ++i) to[i] = op.forward(from[i]);
      return y;
    }
  }
  const DType dtype = unary_rows::dtype_for(op, x, where);
  Tensor y = empty_like(x, elementwise::kIsPredicate<Op> ? DType::bool_ : dtype, where);
  unary_rows::compute(op, dtype, x, y, where);
  return y;
}

template <class Op>
void unary(const Op& op, const Tensor& x, const Tensor& out, Where where) {
  check_same_device(Op::kName, x, out, where);
  elementwise::check_can_hold(Op::kName, out, unary_rows::dtype_for(op, x, where), where);
  elementwise::check_out(Op::kName, out, x.shape(), where);
  const Tensor from = elementwise::without_overlap(x, out, where);
  unary_rows::compute(op, out.dtype(), from, out, where);
  out.mark_changed(where);
}

template <class Op>
Tensor unary_backward(const Op& op, const Tensor& grad_output, const Tensor& saved, Where where) {
  Tensor grad_input = empty_like(grad_output, where);
  if (elementwise::are_tiny(where, grad_output, saved)) {
    const float* grad = grad_output.data<float>();
    const float* value = saved.data<float>();
    float* to = grad_input.data<float>();
    for (std::int64_t i = 0; i < grad_output.numel(); ++i) to[i] = op.backward(grad[i], value[i]);
    return grad_input;
  }
  if (grad_input.device().is_cuda()) {
    cuda::unary_backward(op, grad_output, saved, grad_input, where);
    return grad_input;
  }
  const DType math = math_dtype(grad_output.dtype());
  elementwise::dispatch<ops::Domain::real>(math, [&]<class T>() {
    cpu::map({unary_rows::backward_loop<Op, T>, &op, {math, math}, math}, grad_input,
             {&grad_output, &saved});
  });
  return grad_input;
}

#define RINGRAD_UNARY(...) template Tensor unary(const __VA_ARGS__&, const Tensor&, Where)
#define RINGRAD_UNARY_INTO(...) \
  template void unary(const __VA_ARGS__&, const Tensor&, const Tensor&, Where)
#define RINGRAD_UNARY_WITH_BACKWARD(...) \
  RINGRAD_UNARY(__VA_ARGS__);            \
  template Tensor unary_backward(const __VA_ARGS__&, const Tensor&, const Tensor&, Where)

}  // namespace ringrad::kernels
