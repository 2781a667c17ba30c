#include "ringrad/kernels/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "ringrad/core/check_fits.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/attention/attention_cpu.h"
#include "ringrad/kernels/attention/attention_cuda.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

void check_mask(const Tensor& mask, const Tensor& q, const Shape& scores, Where where) {
  RINGRAD_CHECK(mask.dtype() == DType::bool_ || is_floating(mask.dtype()), DTypeError, where, kName,
                ": the mask must be bool or floating; got ", mask.dtype());
  check_same_device(kName, q, mask, where);
  bool fits = mask.dims() <= 4;
  for (int axis = 1; fits && axis <= mask.dims(); ++axis) {
    const std::int64_t extent = mask.shape()[mask.dims() - axis];
    fits = extent == 1 || extent == scores[4 - axis];
  }
  RINGRAD_CHECK(fits, ShapeError, where, kName,
                ": the mask must broadcast to (B, H, T, S) = ", scores, "; got ", mask.shape());
}

// The mask over all of (B, H, T, S), with strides of 0 where it broadcasts; a floating one in the
// dtype of the arithmetic.
Tensor expanded_mask(const AttentionProblem& a, const Tensor& mask, const Tensor& q, Where where) {
  if (!mask.defined()) return {};
  const Tensor values =
      mask.dtype() == DType::bool_ ? mask : cast(mask, math_dtype(q.dtype()), where);
  return view::expand(values, {a.B, a.H, a.T, a.S}, where);
}

// Uninitialised (B, heads, length, size), in memory as (B, length, heads, size) if `like` is.
Tensor empty_in_order_of(const Tensor& like, std::int64_t size, Where where) {
  const Shape& shape = like.shape();
  const Options options{.dtype = like.dtype(), .device = like.device()};
  if (like.strides()[1] >= like.strides()[2])
    return empty({shape[0], shape[1], shape[2], size}, options, where);
  return view::transpose(empty({shape[0], shape[2], shape[1], size}, options, where), 1, 2, where);
}

}  // namespace

AttentionProblem attention_problem(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const AttentionOptions& options, Where where) {
  check_floating(kName, q, where);
  for (const Tensor* other : {&k, &v}) {
    check_same_dtype(kName, q, *other, where);
    check_same_device(kName, q, *other, where);
  }
  const auto facts = [&] { return concat(q.shape(), ", ", k.shape(), " and ", v.shape()); };
  RINGRAD_CHECK(q.dims() == 4 && k.dims() == 4 && v.dims() == 4, ShapeError, where, kName,
                ": q, k and v must have 4 axes; got ", facts());
  const Shape &Q = q.shape(), &K = k.shape(), &V = v.shape();
  RINGRAD_CHECK(Q[0] == K[0] && K[0] == V[0] && K[1] == V[1] && K[2] == V[2] && Q[3] == K[3],
                ShapeError, where, kName,
                ": q, k, v must be (B, H, T, D), (B, Hkv, S, D), (B, Hkv, S, Dv); got ", facts());
  RINGRAD_CHECK(K[1] > 0 ? Q[1] % K[1] == 0 : Q[1] == 0, ShapeError, where, kName,
                ": the heads of q must be a multiple of those of k; got ", Q[1], " and ", K[1]);
  RINGRAD_CHECK(options.dropout >= 0 && options.dropout <= 1, ValueError, where, kName,
                ": dropout must be in [0, 1]; got ", options.dropout);
  if (options.scale) check_finite(kName, "scale", *options.scale, where);
  RINGRAD_CHECK(options.window >= 0, ValueError, where, kName,
                ": window must not be negative; got ", options.window);
  if (options.mask.defined()) check_mask(options.mask, q, {Q[0], Q[1], Q[2], K[2]}, where);
  const bool ends_together = options.alignment == CausalAlignment::lower_right;
  return {.B = Q[0],
          .H = Q[1],
          .Hkv = K[1],
          .T = Q[2],
          .S = K[2],
          .D = Q[3],
          .Dv = V[3],
          .scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(Q[3]))),
          .causal = options.causal,
          .shift = ends_together ? K[2] - Q[2] : 0,
          .window = std::min(options.window, Q[2] + K[2])};
}

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionOptions& options, const AttentionDropout& dropout,
                          Where where) {
  const AttentionProblem a = attention_problem(q, k, v, options, where);
  const Tensor mask = expanded_mask(a, options.mask, q, where);
  const Tensor output = empty_in_order_of(q, a.Dv, where);
  const Shape shape = q.device().is_cuda() ? Shape{a.B, a.H, a.T} : Shape{a.B, a.H, a.T, 2};
  const Tensor statistics =
      empty(shape, {.dtype = math_dtype(q.dtype()), .device = q.device()}, where);
  const AttentionForward call{a, q, k, v, mask, dropout, output, statistics};
  q.device().is_cuda() ? cuda::attention(call, where) : cpu::attention(call, where);
  return {output, statistics};
}

AttentionGradients attention_backward(const Tensor& grad_output, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const AttentionResult& result,
                                      const AttentionOptions& options,
                                      const AttentionDropout& dropout, Where where) {
  constexpr const char* kBackward = "scaled_dot_product_attention_backward";
  const AttentionProblem a = attention_problem(q, k, v, options, where);
  check_same_dtype(kBackward, grad_output, result.output, where);
  check_same_device(kBackward, grad_output, result.output, where);
  RINGRAD_CHECK(grad_output.shape() == result.output.shape(), ShapeError, where, kBackward,
                ": shapes must be equal; got grad_output ", grad_output.shape(), " and output ",
                result.output.shape());
  const AttentionBackward call{.a = a,
                               .grad_output = grad_output,
                               .q = q,
                               .k = k,
                               .v = v,
                               .mask = expanded_mask(a, options.mask, q, where),
                               .dropout = dropout,
                               .output = result.output,
                               .statistics = result.statistics,
                               .grad_q = empty_in_order_of(q, a.D, where),
                               .grad_k = empty_in_order_of(k, a.D, where),
                               .grad_v = empty_in_order_of(v, a.Dv, where)};
  q.device().is_cuda() ? cuda::attention_backward(call, where)
                       : cpu::attention_backward(call, where);
  return {call.grad_q, call.grad_k, call.grad_v};
}

}  // namespace ringrad::kernels
