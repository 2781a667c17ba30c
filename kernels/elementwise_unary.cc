#include "core/simd.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_rules.h"
#include "kernels/map_cpu.h"

namespace ringrad::kernels {
namespace {

template <class Op, class T>
using Result = elementwise::ResultOf<Op, T, decltype(std::declval<const Op&>().forward(T()))>;

template <class Op, class T>
RINGRAD_CLONES void forward_loop(const void* op_address, void* out, const void* const* in,
                                 std::int64_t n) {
  const Op op = *static_cast<const Op*>(op_address);
  const T* x = static_cast<const T*>(in[0]);
  auto* y = static_cast<Result<Op, T>*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = op.forward(x[i]);
}

template <class Op, class T>
RINGRAD_CLONES void backward_loop(const void* op_address, void* out, const void* const* in,
                                  std::int64_t n) {
  const Op op = *static_cast<const Op*>(op_address);
  const T* grad_output = static_cast<const T*>(in[0]);
  const T* saved = static_cast<const T*>(in[1]);
  T* grad_input = static_cast<T*>(out);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) grad_input[i] = op.backward(grad_output[i], saved[i]);
}

template <class Op>
cpu::Function forward_function(const Op& op, DType dtype) {
  const DType math = cpu::math_dtype(dtype);
  return elementwise::dispatch<Op::kDomain>(math, [&]<class T>() -> cpu::Function {
    return {forward_loop<Op, T>, &op, {math}, dtype_of<Result<Op, T>>};
  });
}

// The dtype op computes x in.
template <class Op>
DType dtype_for(const Op& op, const Tensor& x, Where where) {
  DType dtype = x.dtype(where);
  if constexpr (requires { op.promoted(dtype, where); }) dtype = op.promoted(dtype, where);
  return elementwise::compute_dtype(Op::kName, Op::kDomain, dtype, where);
}

}  // namespace

template <class Op>
Tensor unary(const Op& op, const Tensor& x, Where where) {
  if constexpr (Op::kDomain != ops::Domain::logical) {
    if (elementwise::are_tiny(where, x)) {
      using Y = Result<Op, float>;
      Tensor y = empty_like(x, dtype_of<Y>, where);
      const float* from = x.data<float>();
      Y* to = y.data<Y>();
      for (std::int64_t i = 0; i < x.numel(); ++i) to[i] = op.forward(from[i]);
      return y;
    }
  }
  const DType dtype = dtype_for(op, x, where);
  const cpu::Function function = forward_function(op, dtype);
  Tensor y = empty_like(x, function.out == DType::bool_ ? DType::bool_ : dtype, where);
  cpu::map(function, y, {&x});
  return y;
}

template <class Op>
void unary(const Op& op, const Tensor& x, const Tensor& out, Where where) {
  check_same_device(Op::kName, x, out, where);
  elementwise::check_can_hold(Op::kName, out, dtype_for(op, x, where), where);
  elementwise::check_out(Op::kName, out, x.shape(), where);
  const Tensor from = elementwise::without_overlap(x, out, where);
  cpu::map(forward_function(op, out.dtype()), out, {&from});
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
  const DType math = cpu::math_dtype(grad_output.dtype());
  elementwise::dispatch<ops::Domain::real>(math, [&]<class T>() {
    cpu::map({backward_loop<Op, T>, &op, {math, math}, math}, grad_input, {&grad_output, &saved});
  });
  return grad_input;
}

// -- Rows -----------------------------------------------------------------------------------------

#define RINGRAD_UNARY(...) template Tensor unary(const __VA_ARGS__&, const Tensor&, Where)
#define RINGRAD_UNARY_INTO(...) \
  template void unary(const __VA_ARGS__&, const Tensor&, const Tensor&, Where)
#define RINGRAD_UNARY_WITH_BACKWARD(...) \
  RINGRAD_UNARY(__VA_ARGS__);            \
  template Tensor unary_backward(const __VA_ARGS__&, const Tensor&, const Tensor&, Where)

RINGRAD_UNARY(ops::Neg);
RINGRAD_UNARY_WITH_BACKWARD(ops::Abs);
RINGRAD_UNARY_WITH_BACKWARD(ops::Square);
RINGRAD_UNARY_WITH_BACKWARD(ops::Exp);
RINGRAD_UNARY_WITH_BACKWARD(ops::Expm1);
RINGRAD_UNARY_WITH_BACKWARD(ops::Log);
RINGRAD_UNARY_WITH_BACKWARD(ops::Log1p);
RINGRAD_UNARY_WITH_BACKWARD(ops::Sqrt);
RINGRAD_UNARY_WITH_BACKWARD(ops::Rsqrt);
RINGRAD_UNARY_WITH_BACKWARD(ops::Reciprocal);
RINGRAD_UNARY_WITH_BACKWARD(ops::Sin);
RINGRAD_UNARY_WITH_BACKWARD(ops::Cos);
RINGRAD_UNARY_WITH_BACKWARD(ops::Tanh);
RINGRAD_UNARY_WITH_BACKWARD(ops::Sigmoid);
RINGRAD_UNARY_WITH_BACKWARD(ops::Erf);
RINGRAD_UNARY_WITH_BACKWARD(ops::Relu);
RINGRAD_UNARY_WITH_BACKWARD(ops::Gelu);
RINGRAD_UNARY_WITH_BACKWARD(ops::GeluTanh);
RINGRAD_UNARY(ops::Sign);
RINGRAD_UNARY(ops::Floor);
RINGRAD_UNARY(ops::Ceil);
RINGRAD_UNARY(ops::Round);
RINGRAD_UNARY_WITH_BACKWARD(ops::Clamp);
RINGRAD_UNARY_WITH_BACKWARD(ops::PowScalar);
RINGRAD_UNARY_WITH_BACKWARD(ops::ScalarPow);
RINGRAD_UNARY(ops::LogicalNot);
RINGRAD_UNARY(ops::IsNan);
RINGRAD_UNARY(ops::IsFinite);

RINGRAD_UNARY(ops::RightScalar<ops::Add>);
RINGRAD_UNARY(ops::RightScalar<ops::Sub>);
RINGRAD_UNARY(ops::RightScalar<ops::Mul>);
RINGRAD_UNARY(ops::RightScalar<ops::Div>);
RINGRAD_UNARY_WITH_BACKWARD(ops::RightScalar<ops::Maximum>);
RINGRAD_UNARY_WITH_BACKWARD(ops::RightScalar<ops::Minimum>);
RINGRAD_UNARY(ops::LeftScalar<ops::Sub>);
RINGRAD_UNARY_WITH_BACKWARD(ops::LeftScalar<ops::Div>);
RINGRAD_UNARY(ops::RightScalar<ops::Eq>);
RINGRAD_UNARY(ops::RightScalar<ops::Ne>);
RINGRAD_UNARY(ops::RightScalar<ops::Lt>);
RINGRAD_UNARY(ops::RightScalar<ops::Le>);
RINGRAD_UNARY(ops::RightScalar<ops::Gt>);
RINGRAD_UNARY(ops::RightScalar<ops::Ge>);

RINGRAD_UNARY_INTO(ops::RightScalar<ops::Add>);
RINGRAD_UNARY_INTO(ops::RightScalar<ops::Sub>);
RINGRAD_UNARY_INTO(ops::RightScalar<ops::Mul>);
RINGRAD_UNARY_INTO(ops::RightScalar<ops::Div>);

}  // namespace ringrad::kernels
