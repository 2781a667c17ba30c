#include "ringrad/kernels/elementwise/elementwise_binary_ops.h"
#include "ringrad/kernels/elementwise/elementwise_cuda.h"
#include "ringrad/kernels/elementwise/elementwise_rules.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <class Op>
struct Forward {
  constexpr auto operator()(auto a, auto b) const { return Op::forward(a, b); }
};

struct AddScaled {
  Scalar alpha;
  template <class T>
  constexpr T operator()(T a, T b) const {
    return a + alpha.to<T>() * b;
  }
};

struct Where3 {
  template <class T>
  constexpr T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

}  // namespace

template <class Op>
void binary(DType dtype, const Tensor& a, const Tensor& b, const Tensor& out, Where where) {
  elementwise::dispatch<Op::kDomain>(math_dtype(dtype), [&]<class T>() {
    map<elementwise::BinaryResult<Op, T>, T, T>(Op::kName, Forward<Op>(), out, {&a, &b}, where);
  });
}

template <class Backward>
void binary_backward(const Tensor& grad_output, const Tensor& a, const Tensor& b, const Tensor& out,
                     Where where) {
  elementwise::dispatch<ops::Domain::real>(math_dtype(grad_output.dtype()), [&]<class T>() {
    map<T, T, T, T>("binary_backward", Backward(), out, {&grad_output, &a, &b}, where);
  });
}

void add_scaled(const Tensor& y, const Tensor& x, Scalar alpha, Where where) {
  elementwise::dispatch<ops::Domain::number>(math_dtype(y.dtype()), [&]<class T>() {
    map<T, T, T>("add_", AddScaled{alpha}, y, {&y, &x}, where);
  });
}

void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out,
           Where where) {
  elementwise::dispatch<ops::Domain::any>(math_dtype(out.dtype()), [&]<class T>() {
    map<T, bool, T, T>("where", Where3(), out, {&condition, &a, &b}, where);
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

#include "ringrad/kernels/elementwise/elementwise_binary_rows.inc"

}  // namespace ringrad::kernels::cuda
