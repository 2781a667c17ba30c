// Elementwise operators: every result element depends on one element of each operand.
//
//     Tensor y = exp(-x * x / 2);     Tensor p = where(x > 0, x, 0.1 * x);
//
// Operands broadcast as in NumPy and are promoted as in PyTorch: bool < integers < floats, the
// wider of a class wins, and neither a plain number nor a tensor without axes widens a tensor of
// its own class that has axes. The result has its operands' layout, so channels_last stays
// channels_last. The gradient of a broadcast operand is summed to the operand's shape and converted
// to its dtype.
//
// All operators are differentiable any number of times, unless noted. Below, "floats" means that
// integers and bool become float32 first; "numbers" means that integers and floats keep their
// dtype, and bool throws DTypeError. Every function throws ShapeError for shapes that do not
// broadcast, DeviceError for tensors on different devices, and ValueError for a plain number that
// an integer tensor cannot hold.
//
// in_place.h has the in-place operators. The headers kernels/elementwise/elementwise_*_ops.h have
// the formulas and derivatives.

#pragma once

#include <optional>

#include "ringrad/core/tensor.h"

namespace ringrad {

// -- Of one tensor --------------------------------------------------------------------------------

/// -x. Numbers.
Tensor neg(const Tensor& x, Where where = Where::current());
/// |x|; the gradient at 0 is 0. Numbers.
Tensor abs(const Tensor& x, Where where = Where::current());
/// -1, 0 or 1; the gradient is 0. Numbers.
Tensor sign(const Tensor& x, Where where = Where::current());
/// x^2. Numbers.
Tensor square(const Tensor& x, Where where = Where::current());
/// e^x. Floats.
Tensor exp(const Tensor& x, Where where = Where::current());
/// e^x - 1, exact near 0. Floats.
Tensor expm1(const Tensor& x, Where where = Where::current());
/// Natural logarithm; -inf at 0, NaN below. Floats.
Tensor log(const Tensor& x, Where where = Where::current());
/// log(1 + x), exact near 0. Floats.
Tensor log1p(const Tensor& x, Where where = Where::current());
/// Square root; NaN below 0. Floats.
Tensor sqrt(const Tensor& x, Where where = Where::current());
/// 1 / sqrt(x). Floats.
Tensor rsqrt(const Tensor& x, Where where = Where::current());
/// 1 / x. Floats.
Tensor reciprocal(const Tensor& x, Where where = Where::current());
/// Sine of x in radians. Floats.
Tensor sin(const Tensor& x, Where where = Where::current());
/// Cosine of x in radians. Floats.
Tensor cos(const Tensor& x, Where where = Where::current());
/// Hyperbolic tangent. Floats.
Tensor tanh(const Tensor& x, Where where = Where::current());
/// 1 / (1 + e^-x). Floats.
Tensor sigmoid(const Tensor& x, Where where = Where::current());
/// Tangent of x in radians. Floats.
Tensor tan(const Tensor& x, Where where = Where::current());
/// Inverse of sin, in [-pi / 2, pi / 2]; NaN outside [-1, 1]. Floats.
Tensor asin(const Tensor& x, Where where = Where::current());
/// Inverse of cos, in [0, pi]; NaN outside [-1, 1]. Floats.
Tensor acos(const Tensor& x, Where where = Where::current());
/// Inverse of tan, in [-pi / 2, pi / 2]. Floats.
Tensor atan(const Tensor& x, Where where = Where::current());
/// (exp(x) - exp(-x)) / 2. Floats.
Tensor sinh(const Tensor& x, Where where = Where::current());
/// (exp(x) + exp(-x)) / 2. Floats.
Tensor cosh(const Tensor& x, Where where = Where::current());
/// Inverse of sinh. Floats.
Tensor asinh(const Tensor& x, Where where = Where::current());
/// Inverse of cosh, not negative; NaN below 1. Floats.
Tensor acosh(const Tensor& x, Where where = Where::current());
/// Inverse of tanh; NaN outside of [-1, 1]. Floats.
Tensor atanh(const Tensor& x, Where where = Where::current());
/// 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x. Floats.
Tensor erf(const Tensor& x, Where where = Where::current());

/// max(x, 0); the gradient at 0 is 0, and a NaN passes the gradient on. Numbers.
Tensor relu(const Tensor& x, Where where = Where::current());
/// The gradient of relu, for operators that fuse it: 0 where y <= 0, else grad. Floating dtypes.
/// Differentiable in grad; y counts as constant.
/// Throws:  ShapeError or DTypeError unless grad and y agree
Tensor relu_gradient(const Tensor& grad, const Tensor& y, Where where = Where::current());
/// x Phi(x), where Phi is the distribution function of the standard normal distribution. Floats.
/// Paper:   Hendrycks and Gimpel 2016, arXiv:1606.08415
Tensor gelu(const Tensor& x, Where where = Where::current());
/// The paper's approximation of gelu with tanh. Floats.
Tensor gelu_tanh(const Tensor& x, Where where = Where::current());
/// x sigmoid(x), also called swish. Floats.
Tensor silu(const Tensor& x, Where where = Where::current());
/// log(1 + e^(beta x)) / beta; x itself where beta x > threshold. Floats.
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                Where where = Where::current());
/// x where x > 0, else slope x; the gradient at 0 is slope. Floats.
Tensor leaky_relu(const Tensor& x, double slope = 0.01, Where where = Where::current());
/// x where x > 0, else alpha (e^x - 1). Floats.
/// Paper:   Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289
Tensor elu(const Tensor& x, double alpha = 1, Where where = Where::current());

/// The largest integer not above x; the gradient is 0. Numbers; the dtype stays.
Tensor floor(const Tensor& x, Where where = Where::current());
/// The smallest integer not below x; the gradient is 0. Numbers; the dtype stays.
Tensor ceil(const Tensor& x, Where where = Where::current());
/// The nearest integer, with halves to the even one; the gradient is 0. Numbers; the dtype stays.
Tensor round(const Tensor& x, Where where = Where::current());
/// x without its fraction; the gradient is 0. Numbers; the dtype stays.
Tensor trunc(const Tensor& x, Where where = Where::current());
/// x with numbers in place of NaN, inf and -inf, which get no gradient. Without `high` and `low`
/// infinities become the dtype's largest and smallest number. Numbers; integers stay as they are.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> high = {},
                  std::optional<double> low = {}, Where where = Where::current());
/// x limited to [low, high]; the gradient is 0 outside, at the bounds and for NaN, as in PyTorch
/// 2.15 (at the bounds it was 1 in PyTorch 1.13). Numbers.
/// Throws:  ValueError unless low <= high
Tensor clamp(const Tensor& x, Scalar low, Scalar high, Where where = Where::current());

// -- Of two tensors, or a tensor and a number -----------------------------------------------------

/// a + b. Numbers.
Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor add(const Tensor& a, Scalar b, Where where = Where::current());
/// relu(a + b), the end of a residual block, in one pass. Numbers.
Tensor add_relu(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a - b. Numbers.
Tensor sub(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor sub(const Tensor& a, Scalar b, Where where = Where::current());
Tensor sub(Scalar a, const Tensor& b, Where where = Where::current());
/// a b. Numbers.
Tensor mul(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor mul(const Tensor& a, Scalar b, Where where = Where::current());
/// a / b. Floats, even for integers.
Tensor div(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor div(const Tensor& a, Scalar b, Where where = Where::current());
Tensor div(Scalar a, const Tensor& b, Where where = Where::current());
/// a^b. Numbers; integers wrap around, and 1 / a^n rounds towards zero.
Tensor pow(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor pow(const Tensor& a, Scalar b, Where where = Where::current());
Tensor pow(Scalar a, const Tensor& b, Where where = Where::current());
/// a / b rounded down; the gradient is 0. Numbers. An integer divided by 0 gives 0.
Tensor floor_divide(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor floor_divide(const Tensor& a, Scalar b, Where where = Where::current());
/// a - b floor_divide(a, b), with the sign of b, as in Python. Numbers. By 0: NaN, or 0 for
/// integers.
Tensor remainder(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor remainder(const Tensor& a, Scalar b, Where where = Where::current());
/// The angle of the point (b, a), in [-pi, pi]; the gradient at (0, 0) is 0. Floats.
Tensor atan2(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a + weight (b - a). Floats.
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight, Where where = Where::current());
Tensor lerp(const Tensor& a, const Tensor& b, Scalar weight, Where where = Where::current());
/// The larger operand; NaN if either is NaN. Where they are equal, each tensor receives half of the
/// gradient; where either is NaN, both receive all of it. Numbers.
Tensor maximum(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor maximum(const Tensor& a, Scalar b, Where where = Where::current());
/// The smaller operand; otherwise as maximum.
Tensor minimum(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor minimum(const Tensor& a, Scalar b, Where where = Where::current());

/// condition ? a : b
///
/// DTypes:  condition bool; a and b any
/// Throws:  DTypeError if the condition is not bool
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b,
             Where where = Where::current());
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where = Where::current());
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where = Where::current());

// -- Of bits: no history. Integers and bool; floats throw DTypeError ------------------------------

/// Each bit inverted; !x for bool.
Tensor bitwise_not(const Tensor& x, Where where = Where::current());
/// Bits that are set in both, in either, or in one of the operands.
Tensor bitwise_and(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_and(const Tensor& a, Scalar b, Where where = Where::current());
Tensor bitwise_or(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_or(const Tensor& a, Scalar b, Where where = Where::current());
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_xor(const Tensor& a, Scalar b, Where where = Where::current());

// -- Predicates: the result is bool and has no history. Any dtype ---------------------------------

/// a == b, a != b, a < b, a <= b, a > b, a >= b, element by element, with broadcasting.
Tensor eq(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor eq(const Tensor& a, Scalar b, Where where = Where::current());
Tensor ne(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor ne(const Tensor& a, Scalar b, Where where = Where::current());
Tensor lt(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor lt(const Tensor& a, Scalar b, Where where = Where::current());
Tensor le(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor le(const Tensor& a, Scalar b, Where where = Where::current());
Tensor gt(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor gt(const Tensor& a, Scalar b, Where where = Where::current());
Tensor ge(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor ge(const Tensor& a, Scalar b, Where where = Where::current());

/// a != 0 and b != 0
Tensor logical_and(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a != 0 or b != 0
Tensor logical_or(const Tensor& a, const Tensor& b, Where where = Where::current());
/// x == 0
Tensor logical_not(const Tensor& x, Where where = Where::current());
/// True where x is NaN.
Tensor isnan(const Tensor& x, Where where = Where::current());
/// Neither NaN nor infinite.
Tensor isfinite(const Tensor& x, Where where = Where::current());

// -- The same as operators ------------------------------------------------------------------------

Tensor operator-(Located x);

Tensor operator+(Located a, Located b);
Tensor operator+(Located a, Scalar b);
Tensor operator+(Scalar a, Located b);
Tensor operator-(Located a, Located b);
Tensor operator-(Located a, Scalar b);
Tensor operator-(Scalar a, Located b);
Tensor operator*(Located a, Located b);
Tensor operator*(Located a, Scalar b);
Tensor operator*(Scalar a, Located b);
Tensor operator/(Located a, Located b);
Tensor operator/(Located a, Scalar b);
Tensor operator/(Scalar a, Located b);

Tensor operator==(Located a, Located b);
Tensor operator==(Located a, Scalar b);
Tensor operator==(Scalar a, Located b);
Tensor operator!=(Located a, Located b);
Tensor operator!=(Located a, Scalar b);
Tensor operator!=(Scalar a, Located b);
Tensor operator<(Located a, Located b);
Tensor operator<(Located a, Scalar b);
Tensor operator<(Scalar a, Located b);
Tensor operator<=(Located a, Located b);
Tensor operator<=(Located a, Scalar b);
Tensor operator<=(Scalar a, Located b);
Tensor operator>(Located a, Located b);
Tensor operator>(Located a, Scalar b);
Tensor operator>(Scalar a, Located b);
Tensor operator>=(Located a, Located b);
Tensor operator>=(Located a, Scalar b);
Tensor operator>=(Scalar a, Located b);

}  // namespace ringrad
