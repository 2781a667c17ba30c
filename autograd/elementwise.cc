#include "ringrad/autograd/elementwise.h"

#include <limits>

#include "ringrad/autograd/broadcast.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/check_fits.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {
namespace {

// -- The derivative of a row: one fused loop, or public operators if it is recorded itself --------
//
// A derivative that reads no saved operand, or only one, is a single operator: there is nothing to
// fuse. Composed formulas compute in the dtype of the gradient, as there are no products of bool
// operands, but 16-bit dtypes in float32, as the loops do, because a float16 intermediate easily
// overflows or vanishes.

bool is_half(const Tensor& x) { return size_bytes(x.dtype()) == 2; }
Tensor in_float32(const Tensor& x) { return to(x, DType::float32); }

template <class Op>
Tensor gradient(const Op& op, const Tensor& grad, const Tensor& saved) {
  if constexpr (Op::kSaves != ops::Saves::nothing) {
    if (!grad_enabled()) return kernels::unary_backward(op, grad, saved);
    if (is_half(grad)) return to(op.backward(in_float32(grad), in_float32(saved)), grad.dtype());
  }
  return op.backward(grad, saved);
}

template <class Op>
Tensor gradient_a(const Tensor& grad, const Tensor& a, const Tensor& b) {
  if constexpr (Op::kSavedForA == ops::kBoth) {
    if (!grad_enabled()) return kernels::binary_backward_a<Op>(grad, a, b);
    if (is_half(grad))
      return to(Op::backward_a(in_float32(grad), in_float32(a), in_float32(b)), grad.dtype());
    return Op::backward_a(grad, to(a, grad.dtype()), to(b, grad.dtype()));
  }
  return Op::backward_a(grad, a, b);
}

template <class Op>
Tensor gradient_b(const Tensor& grad, const Tensor& a, const Tensor& b) {
  if constexpr (Op::kSavedForB == ops::kBoth) {
    if (!grad_enabled()) return kernels::binary_backward_b<Op>(grad, a, b);
    if (is_half(grad))
      return to(Op::backward_b(in_float32(grad), in_float32(a), in_float32(b)), grad.dtype());
    return Op::backward_b(grad, to(a, grad.dtype()), to(b, grad.dtype()));
  }
  return Op::backward_b(grad, a, b);
}

// -- Undoes broadcasting and promotion of the operands, on their gradients ------------------------

struct Unchanged {
  Tensor operator()(int, Tensor grad) const { return grad; }
};

struct ReducedOperands {
  Shape shapes[2];
  DType dtypes[2];

  ReducedOperands(const Tensor& a, const Tensor& b)
      : shapes{a.shape(), b.shape()}, dtypes{a.dtype(), b.dtype()} {}
  Tensor operator()(int i, const Tensor& grad) const {
    const Tensor sum = grad.shape() == shapes[i] ? grad : sum_to(grad, shapes[i]);
    return sum.dtype() == dtypes[i] ? sum : to(sum, dtypes[i]);
  }
};

bool lies_like(const Tensor& x, const Tensor& y) {
  return x.dtype() == y.dtype() && x.shape() == y.shape();
}

// -- Recording ------------------------------------------------------------------------------------

template <class Op>
Tensor unary(const Op& op, const Tensor& x, Where where) {
  Tensor y = kernels::unary(op, x, where);
  if (!needs_grad(x)) return y;
  if constexpr (Op::kSaves == ops::Saves::nothing) {
    record(Op::kName, where, y, {&x}, [op](BackwardContext& context) {
      context.set(0, gradient(op, context.grad_output(), {}));
    });
  } else {
    record(Op::kName, where, y, {&x},
           [op, saved = Op::kSaves == ops::Saves::input ? save(x) : save_output(y)](
               BackwardContext& context) {
             context.set(0, gradient(op, context.grad_output(), saved.get()));
           });
  }
  return y;
}

template <class Op, class Reduce>
void record_binary(const Tensor& y, const Tensor& a, const Tensor& b, Reduce reduce, Where where) {
  const unsigned looked_at =
      (a.requires_grad() ? Op::kSavedForA : 0u) | (b.requires_grad() ? Op::kSavedForB : 0u);
  record(Op::kName, where, y, {&a, &b},
         [reduce, a = looked_at & ops::kA ? save(a) : SavedTensor(),
          b = looked_at & ops::kB ? save(b) : SavedTensor()](BackwardContext& context) {
           const Tensor &grad = context.grad_output(), &at_a = a.get(), &at_b = b.get();
           if (context.needs(0)) context.set(0, reduce(0, gradient_a<Op>(grad, at_a, at_b)));
           if (context.needs(1)) context.set(1, reduce(1, gradient_b<Op>(grad, at_a, at_b)));
         });
}

template <class Op>
Tensor binary(const Tensor& a, const Tensor& b, Where where) {
  Tensor y = kernels::binary<Op>(a, b, where);
  if (!needs_grad(a, b)) return y;
  if (lies_like(a, y) && lies_like(b, y))
    record_binary<Op>(y, a, b, Unchanged(), where);
  else
    record_binary<Op>(y, a, b, ReducedOperands(a, b), where);
  return y;
}

template <class Op>
Tensor right(const Tensor& a, Scalar b, Where where) {
  return unary(ops::RightScalar<Op>(b), a, where);
}

template <class Op>
Tensor left(Scalar a, const Tensor& b, Where where) {
  return unary(ops::LeftScalar<Op>(a), b, where);
}

// A predicate, or an operator of bits: nothing to record.
template <class Op>
Tensor without_history(const Tensor& a, Scalar b, Where where) {
  return kernels::unary(ops::RightScalar<Op>(b), a, where);
}

// As if the number were an element of `a`: in 16 bits, full({}, 0.1, like_a) must equal 0.1.
template <class Op>
Tensor compare(const Tensor& a, Scalar b, Where where) {
  if (a.dtype(where) == DType::float16) b = b.as<float16>();
  if (a.dtype() == DType::bfloat16) b = b.as<bfloat16>();
  return without_history<Op>(a, b, where);
}

// The largest finite number of a floating dtype.
double largest(DType dtype) {
  if (dtype == DType::float64) return std::numeric_limits<double>::max();
  if (dtype == DType::float16) return 65504;
  if (dtype == DType::bfloat16) return 0x1.fep127;
  return static_cast<double>(std::numeric_limits<float>::max());
}

Tensor number_beside(const Tensor& x, Scalar value, Where where) {
  return scalar_tensor(value, {.dtype = promote(x.dtype(), value), .device = x.device()}, where);
}

}  // namespace

// -- Rows -----------------------------------------------------------------------------------------

Tensor neg(const Tensor& x, Where where) { return unary(ops::Neg(), x, where); }
Tensor abs(const Tensor& x, Where where) { return unary(ops::Abs(), x, where); }
Tensor sign(const Tensor& x, Where where) { return unary(ops::Sign(), x, where); }
Tensor square(const Tensor& x, Where where) { return unary(ops::Square(), x, where); }
Tensor exp(const Tensor& x, Where where) { return unary(ops::Exp(), x, where); }
Tensor expm1(const Tensor& x, Where where) { return unary(ops::Expm1(), x, where); }
Tensor log(const Tensor& x, Where where) { return unary(ops::Log(), x, where); }
Tensor log1p(const Tensor& x, Where where) { return unary(ops::Log1p(), x, where); }
Tensor sqrt(const Tensor& x, Where where) { return unary(ops::Sqrt(), x, where); }
Tensor rsqrt(const Tensor& x, Where where) { return unary(ops::Rsqrt(), x, where); }
Tensor reciprocal(const Tensor& x, Where where) { return unary(ops::Reciprocal(), x, where); }
Tensor sin(const Tensor& x, Where where) { return unary(ops::Sin(), x, where); }
Tensor cos(const Tensor& x, Where where) { return unary(ops::Cos(), x, where); }
Tensor tanh(const Tensor& x, Where where) { return unary(ops::Tanh(), x, where); }
Tensor sigmoid(const Tensor& x, Where where) { return unary(ops::Sigmoid(), x, where); }
Tensor erf(const Tensor& x, Where where) { return unary(ops::Erf(), x, where); }
Tensor relu(const Tensor& x, Where where) { return unary(ops::Relu(), x, where); }
Tensor gelu(const Tensor& x, Where where) { return unary(ops::Gelu(), x, where); }
Tensor gelu_tanh(const Tensor& x, Where where) { return unary(ops::GeluTanh(), x, where); }
Tensor floor(const Tensor& x, Where where) { return unary(ops::Floor(), x, where); }
Tensor ceil(const Tensor& x, Where where) { return unary(ops::Ceil(), x, where); }
Tensor round(const Tensor& x, Where where) { return unary(ops::Round(), x, where); }

Tensor tan(const Tensor& x, Where where) { return unary(ops::Tan(), x, where); }
Tensor asin(const Tensor& x, Where where) { return unary(ops::Asin(), x, where); }
Tensor acos(const Tensor& x, Where where) { return unary(ops::Acos(), x, where); }
Tensor atan(const Tensor& x, Where where) { return unary(ops::Atan(), x, where); }
Tensor sinh(const Tensor& x, Where where) { return unary(ops::Sinh(), x, where); }
Tensor cosh(const Tensor& x, Where where) { return unary(ops::Cosh(), x, where); }
Tensor asinh(const Tensor& x, Where where) { return unary(ops::Asinh(), x, where); }
Tensor acosh(const Tensor& x, Where where) { return unary(ops::Acosh(), x, where); }
Tensor atanh(const Tensor& x, Where where) { return unary(ops::Atanh(), x, where); }
Tensor silu(const Tensor& x, Where where) { return unary(ops::Silu(), x, where); }
Tensor softplus(const Tensor& x, double beta, double threshold, Where where) {
  check_finite("softplus", "beta", beta, where);
  RINGRAD_CHECK(threshold == threshold, ValueError, where,
                "softplus: the threshold must be a number; got ", threshold);
  return unary(ops::Softplus(beta, threshold), x, where);
}
Tensor leaky_relu(const Tensor& x, double slope, Where where) {
  check_finite("leaky_relu", "slope", slope, where);
  return unary(ops::LeakyRelu(slope), x, where);
}
Tensor elu(const Tensor& x, double alpha, Where where) {
  check_finite("elu", "alpha", alpha, where);
  return unary(ops::Elu(alpha), x, where);
}
Tensor trunc(const Tensor& x, Where where) { return unary(ops::Trunc(), x, where); }
Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> high,
                  std::optional<double> low, Where where) {
  const double most = largest(x.dtype(where));
  return unary(ops::NanToNum(nan, high.value_or(most), low.value_or(-most)), x, where);
}

Tensor clamp(const Tensor& x, Scalar low, Scalar high, Where where) {
  RINGRAD_CHECK(low.to<double>() <= high.to<double>(), ValueError, where,
                "clamp: low must not exceed high; got ", low.to<double>(), " and ",
                high.to<double>());
  return unary(ops::Clamp(low, high), x, where);
}

#define RINGRAD_BINARY(name, Op)                               \
  Tensor name(const Tensor& a, const Tensor& b, Where where) { \
    return binary<ops::Op>(a, b, where);                       \
  }                                                            \
  Tensor name(const Tensor& a, Scalar b, Where where) { return right<ops::Op>(a, b, where); }
RINGRAD_BINARY(add, Add)
RINGRAD_BINARY(sub, Sub)
RINGRAD_BINARY(mul, Mul)
RINGRAD_BINARY(div, Div)
RINGRAD_BINARY(floor_divide, FloorDivide)
RINGRAD_BINARY(remainder, Remainder)
RINGRAD_BINARY(maximum, Maximum)
RINGRAD_BINARY(minimum, Minimum)
#undef RINGRAD_BINARY
Tensor sub(Scalar a, const Tensor& b, Where where) { return left<ops::Sub>(a, b, where); }
Tensor div(Scalar a, const Tensor& b, Where where) { return left<ops::Div>(a, b, where); }
Tensor pow(const Tensor& a, const Tensor& b, Where where) { return binary<ops::Pow>(a, b, where); }
Tensor pow(Scalar a, const Tensor& b, Where where) { return unary(ops::ScalarPow(a), b, where); }
Tensor pow(const Tensor& a, Scalar b, Where where) {
  // 2 is by far the most common exponent, and a multiplication is ten times cheaper.
  const bool keeps_dtype = promote(a.dtype(where), b) == a.dtype();
  if (b.to<double>() == 2 && keeps_dtype) return square(a, where);
  return unary(ops::PowScalar(b), a, where);
}
Tensor atan2(const Tensor& a, const Tensor& b, Where where) {
  return binary<ops::Atan2>(a, b, where);
}

Tensor bitwise_not(const Tensor& x, Where at) { return kernels::unary(ops::BitwiseNot(), x, at); }

#define RINGRAD_UNRECORDED(name, Op, with_number)              \
  Tensor name(const Tensor& a, const Tensor& b, Where where) { \
    return kernels::binary<ops::Op>(a, b, where);              \
  }                                                            \
  Tensor name(const Tensor& a, Scalar b, Where where) { return with_number<ops::Op>(a, b, where); }
RINGRAD_UNRECORDED(bitwise_and, BitwiseAnd, without_history)
RINGRAD_UNRECORDED(bitwise_or, BitwiseOr, without_history)
RINGRAD_UNRECORDED(bitwise_xor, BitwiseXor, without_history)
RINGRAD_UNRECORDED(eq, Eq, compare)
RINGRAD_UNRECORDED(ne, Ne, compare)
RINGRAD_UNRECORDED(lt, Lt, compare)
RINGRAD_UNRECORDED(le, Le, compare)
RINGRAD_UNRECORDED(gt, Gt, compare)
RINGRAD_UNRECORDED(ge, Ge, compare)
#undef RINGRAD_UNRECORDED

Tensor logical_and(const Tensor& a, const Tensor& b, Where where) {
  return kernels::binary<ops::LogicalAnd>(a, b, where);
}
Tensor logical_or(const Tensor& a, const Tensor& b, Where where) {
  return kernels::binary<ops::LogicalOr>(a, b, where);
}
Tensor logical_not(const Tensor& x, Where where) {
  return kernels::unary(ops::LogicalNot(), x, where);
}
Tensor isnan(const Tensor& x, Where where) { return kernels::unary(ops::IsNan(), x, where); }
Tensor isfinite(const Tensor& x, Where where) { return kernels::unary(ops::IsFinite(), x, where); }

// -- Not rows: operators that save a result of two operands, or have three operands ---------------

Tensor relu_gradient(const Tensor& grad, const Tensor& y, Where where) {
  RINGRAD_CHECK(grad.shape(where) == y.shape(where), ShapeError, where,
                "relu_gradient: shapes must be equal; got ", grad.shape(), " and ", y.shape());
  check_same_dtype("relu_gradient", grad, y, where);
  check_floating("relu_gradient", grad, where);
  check_same_device("relu_gradient", grad, y, where);
  Tensor result = kernels::unary_backward(ops::Relu(), grad, y, where);
  if (needs_grad(grad))
    record("relu_gradient", where, result, {&grad}, [y = save(y)](BackwardContext& context) {
      context.set(0, relu_gradient(context.grad_output(), y.get()));
    });
  return result;
}

Tensor add_relu(const Tensor& a, const Tensor& b, Where where) {
  Tensor y = kernels::binary<ops::AddRelu>(a, b, where);
  if (needs_grad(a, b))
    record("add_relu", where, y, {&a, &b},
           [reduce = ReducedOperands(a, b), y = save_output(y)](BackwardContext& context) {
             const Tensor grad = relu_gradient(context.grad_output(), y.get());
             if (context.needs(0)) context.set(0, reduce(0, grad));
             if (context.needs(1)) context.set(1, reduce(1, grad));
           });
  return y;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  Tensor y = kernels::where(condition, a, b, where);
  if (needs_grad(a, b))
    record("where", where, y, {&a, &b},
           [reduce = ReducedOperands(a, b), condition = save(condition)](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             const Tensor chosen = condition.get();
             if (context.needs(0)) context.set(0, reduce(0, ringrad::where(chosen, grad, 0)));
             if (context.needs(1)) context.set(1, reduce(1, ringrad::where(chosen, 0, grad)));
           });
  return y;
}
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where) {
  return ringrad::where(condition, a, number_beside(a, b, where), where);
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where) {
  return ringrad::where(condition, number_beside(b, a, where), b, where);
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight, Where where) {
  Tensor y = kernels::lerp(a, b, weight, where);
  if (needs_grad(a, b, weight)) {
    const bool of_ends = a.requires_grad() || b.requires_grad();
    record("lerp", where, y, {&a, &b, &weight},
           [reduce = ReducedOperands(a, b), reduce_weight = ReducedOperands(weight, weight),
            a = save_if(weight.requires_grad(), a), b = save_if(weight.requires_grad(), b),
            weight = save_if(of_ends, weight)](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             if (context.needs(0)) context.set(0, reduce(0, grad * (1 - weight.get())));
             if (context.needs(1)) context.set(1, reduce(1, grad * weight.get()));
             if (context.needs(2)) context.set(2, reduce_weight(0, grad * (b.get() - a.get())));
           });
  }
  return y;
}
Tensor lerp(const Tensor& a, const Tensor& b, Scalar weight, Where where) {
  check_same_device("lerp", a.device(where), b.device(where), where);
  const DType dtype = promote(promote(a, b), weight);
  const Options exact{.dtype = math_dtype(dtype), .device = a.device()};  // not rounded to 16 bits
  const Tensor y = lerp(a, b, scalar_tensor(weight, exact, where), where);
  return is_floating(dtype) ? to(y, dtype, where) : y;
}

}  // namespace ringrad
