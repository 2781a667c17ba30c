// The loops of binary elementwise rows on CPUs, for the sources that instantiate rows. Private to
// kernels/elementwise/*.cc.

#pragma once

#include "ringrad/core/simd.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/elementwise/elementwise_cuda.h"
#include "ringrad/kernels/elementwise/elementwise_rules.h"
#include "ringrad/kernels/elementwise/map_cpu.h"

namespace ringrad::kernels {
namespace binary_rows {

template <class Op, class T>
using Result = elementwise::BinaryResult<Op, T>;

template <class Op, class T>
RINGRAD_CLONES void forward_loop(const void*, void* out, const void* const* in, std::int64_t n) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  auto* y = static_cast<Result<Op, T>*>(out);
  RINGRAD_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = Op::forward(a[i], b[i]);
}

template <class Op>
cpu::Function forward_function(DType dtype) {
  const DType math = math_dtype(dtype);
  return elementwise::dispatch<Op::kDomain>(math, [&]<class T>() -> cpu::Function {
    return {forward_loop<Op, T>, nullptr, {math, math}, dtype_of<Result<Op, T>>};
  });
}

template <class Op>
void compute(DType dtype, const Tensor& a, const Tensor& b, const Tensor& y, Where where) {
  if (y.device().is_cuda()) return cuda::binary<Op>(dtype, a, b, y, where);
  cpu::map(forward_function<Op>(dtype), y, {&a, &b});
}

template <class Backward, class T>
RINGRAD_CLONES void backward_loop(const void*, void* out, const void* const* in, std::int64_t n) {
  const T* grad_output = static_cast<const T*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* grad_input = static_cast<T*>(out);
  RINGRAD_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) grad_input[i] = Backward()(grad_output[i], a[i], b[i]);
}

template <class Backward>
Tensor backward(const Tensor& grad_output, const Tensor& a, const Tensor& b, Where where) {
  Tensor grad_input = empty_like(grad_output, where);
  if (elementwise::are_tiny(where, grad_output, a, b)) {
    const float *grad = grad_output.data<float>(), *at_a = a.data<float>(), *at_b = b.data<float>();
    float* to = grad_input.data<float>();
    for (std::int64_t i = 0; i < grad_output.numel(); ++i)
      to[i] = Backward()(grad[i], at_a[i], at_b[i]);
    return grad_input;
  }
  if (grad_input.device().is_cuda()) {
    cuda::binary_backward<Backward>(grad_output, a, b, grad_input, where);
    return grad_input;
  }
  const DType math = math_dtype(grad_output.dtype());
  elementwise::dispatch<ops::Domain::real>(math, [&]<class T>() {
    cpu::map({backward_loop<Backward, T>, nullptr, {math, math, math}, math}, grad_input,
             {&grad_output, &a, &b});
  });
  return grad_input;
}

}  // namespace binary_rows

template <class Op>
Tensor binary(const Tensor& a, const Tensor& b, Where where) {
  if constexpr (elementwise::kComputesFloats<Op>) {
    if (elementwise::are_tiny(where, a, b)) {
      using Y = binary_rows::Result<Op, float>;
      Tensor y = empty_like(a, dtype_of<Y>, where);
      const float *from_a = a.data<float>(), *from_b = b.data<float>();
      Y* to = y.data<Y>();
      for (std::int64_t i = 0; i < a.numel(); ++i) to[i] = Op::forward(from_a[i], from_b[i]);
      return y;
    }
  }
  check_same_device(Op::kName, a.device(where), b.device(where), where);
  const DType dtype = elementwise::compute_dtype(Op::kName, Op::kDomain, promote(a, b), where);
  if constexpr (elementwise::kIsPredicate<Op>)  // the loops would compare numbers before rounding
    if (size_bytes(dtype) == 2 && a.dtype() != b.dtype())
      return binary<Op>(cast(a, dtype, where), cast(b, dtype, where), where);
  const Shape shape = broadcast_shapes(Op::kName, a.shape(), b.shape(), where);
  Tensor y = elementwise::empty_for(shape, elementwise::kIsPredicate<Op> ? DType::bool_ : dtype,
                                    {&a, &b}, where);
  binary_rows::compute<Op>(dtype, a, b, y, where);
  return y;
}

template <class Op>
void binary(const Tensor& a, const Tensor& b, const Tensor& out, Where where) {
  elementwise::check_into(Op::kName, Op::kDomain, a, b, out, where);
  const Tensor from_a = elementwise::without_overlap(a, out, where);
  const Tensor from_b = elementwise::without_overlap(b, out, where);
  binary_rows::compute<Op>(out.dtype(), from_a, from_b, out, where);
  out.mark_changed(where);
}

template <class Op>
Tensor binary_backward_a(const Tensor& grad_output, const Tensor& a, const Tensor& b, Where where) {
  return binary_rows::backward<elementwise::BackwardA<Op>>(grad_output, a, b, where);
}

template <class Op>
Tensor binary_backward_b(const Tensor& grad_output, const Tensor& a, const Tensor& b, Where where) {
  return binary_rows::backward<elementwise::BackwardB<Op>>(grad_output, a, b, where);
}

#define RINGRAD_BINARY(Op) template Tensor binary<Op>(const Tensor&, const Tensor&, Where)
#define RINGRAD_BINARY_INTO(Op) \
  template void binary<Op>(const Tensor&, const Tensor&, const Tensor&, Where)
#define RINGRAD_BINARY_BACKWARD(Side, Op) \
  template Tensor binary_backward_##Side<Op>(const Tensor&, const Tensor&, const Tensor&, Where)

}  // namespace ringrad::kernels
