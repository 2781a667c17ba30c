// The kernels of binary elementwise rows, for the sources that instantiate rows. Private to
// kernels/elementwise/*_cuda.cu.

#pragma once

#include "ringrad/kernels/elementwise/elementwise_binary_ops.h"
#include "ringrad/kernels/elementwise/elementwise_cuda.h"
#include "ringrad/kernels/elementwise/elementwise_rules.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace binary_rows {

template <class Op>
struct Forward {
  constexpr auto operator()(auto a, auto b) const { return Op::forward(a, b); }
};

}  // namespace binary_rows

template <class Op>
void binary(DType dtype, const Tensor& a, const Tensor& b, const Tensor& out, Where where) {
  elementwise::dispatch<Op::kDomain>(math_dtype(dtype), [&]<class T>() {
    map<elementwise::BinaryResult<Op, T>, T, T>(Op::kName, binary_rows::Forward<Op>(), out,
                                                {&a, &b}, where);
  });
}

template <class Backward>
void binary_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b, const Tensor& out,
                     Where where) {
  elementwise::dispatch<ops::Domain::real>(math_dtype(grad_output.dtype()), [&]<class T>() {
    map<T, T, T, T>("binary_backward", Backward(), out, {&grad_output, &a, &b}, where);
  });
}

#define RINGRAD_BINARY(Op) \
  template void binary<Op>(DType, const Tensor&, const Tensor&, const Tensor&, Where)
#define RINGRAD_BINARY_INTO(Op) static_assert(true)  // the same kernels
#define RINGRAD_BINARY_BACKWARD(Side, Op)                                                  \
  template void binary_backward<RINGRAD_BACKWARD_##Side<Op>>(const Tensor&, const Tensor&, \
                                                             const Tensor&, const Tensor&, Where)
#define RINGRAD_BACKWARD_a elementwise::BackwardA
#define RINGRAD_BACKWARD_b elementwise::BackwardB

}  // namespace ringrad::kernels::cuda
