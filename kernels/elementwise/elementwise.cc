#include "ringrad/kernels/elementwise/elementwise.h"

#include "ringrad/core/simd.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise_cuda.h"
#include "ringrad/kernels/elementwise/elementwise_rules.h"
#include "ringrad/kernels/elementwise/map_cpu.h"
#include "ringrad/kernels/overlap.h"

namespace ringrad::kernels {
namespace elementwise {

DType compute_dtype(const char* operation, ops::Domain domain, DType dtype, Where where) {
  switch (domain) {
    case ops::Domain::number:
      RINGRAD_CHECK(dtype != DType::bool_, DTypeError, where, operation,
                    ": needs numbers; got bool; convert it to an integer dtype first");
      return dtype;
    case ops::Domain::real:
      return is_floating(dtype) ? dtype : DType::float32;
    case ops::Domain::logical:
      return DType::bool_;
    case ops::Domain::integral:
      RINGRAD_CHECK(!is_floating(dtype), DTypeError, where, operation,
                    ": needs integers or bool; got ", dtype);
      break;
    case ops::Domain::any:
      break;
  }
  return dtype;
}

void check_can_hold(const char* operation, const Tensor& out, DType dtype, Where where) {
  const auto kind = [](DType of) { return is_floating(of) ? 2 : is_integral(of) ? 1 : 0; };
  RINGRAD_CHECK(kind(dtype) <= kind(out.dtype()), DTypeError, where, operation,
                ": the tensor written to must hold the result's dtype; got ", out.dtype(),
                " for a result of ", dtype);
}

void check_out(const char* operation, const Tensor& out, const Shape& shape, Where where) {
  RINGRAD_CHECK(out.shape() == shape, ShapeError, where, operation,
                ": the tensor written to must have the result's shape; got ", out.shape(),
                " for a result of ", shape);
  out.check_writable(operation, where);
}

void check_into(const char* operation, ops::Domain domain, const Tensor& a, const Tensor& b,
                const Tensor& out, Where where) {
  check_same_device(operation, a, b, where);
  check_same_device(operation, a, out, where);
  const DType dtype = compute_dtype(operation, domain, promote(a, b), where);
  check_can_hold(operation, out, dtype, where);
  check_out(operation, out, broadcast_shapes(operation, a.shape(), b.shape(), where), where);
}

Tensor empty_for(const Shape& shape, DType dtype, std::initializer_list<const Tensor*> operands,
                 Where where) {
  for (const Tensor* x : operands)
    if (x->shape() == shape && (x->is_contiguous() || is_dense(x->shape(), x->strides())))
      return empty_like(*x, dtype, where);
  return empty(shape, {.dtype = dtype, .device = (*operands.begin())->device()}, where);
}

Tensor without_overlap(const Tensor& x, const Tensor& out, Where where) {
  const bool harmless = x.numel() == 0 || out.numel() == 0 || same_elements(x, out);
  return harmless || !memory_overlaps(x, out) ? x : clone(x, where);
}

}  // namespace elementwise

namespace {

template <class T>
RINGRAD_CLONES void where_loop(const void*, void* out, const void* const* in, std::int64_t n) {
  const bool* condition = static_cast<const bool*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
  RINGRAD_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const T if_true = a[i], if_false = b[i];  // reads both, so that the choice is a mask
    y[i] = condition[i] ? if_true : if_false;
  }
}

template <class T>
RINGRAD_CLONES void add_scaled_loop(const void* alpha, void* out, const void* const* in,
                                    std::int64_t n) {
  const T scale = static_cast<const Scalar*>(alpha)->to<T>();
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  T* y = static_cast<T*>(out);
  RINGRAD_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + scale * b[i];
}

template <class T>
RINGRAD_CLONES void lerp_loop(const void*, void* out, const void* const* in, std::int64_t n) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* weight = static_cast<const T*>(in[2]);
  T* y = static_cast<T*>(out);
  RINGRAD_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = ops::interpolate(a[i], b[i], weight[i]);
}

}  // namespace

void add_(const Tensor& y, const Tensor& x, Scalar alpha, Where where) {
  if (elementwise::are_tiny(where, y, x) && y.numel() > 0 && !memory_overlaps(y, x)) {
    const float scale = alpha.to<float>();
    const float* from = x.data<float>();
    float* to = y.data<float>();
    for (std::int64_t i = 0; i < y.numel(); ++i) to[i] += scale * from[i];
    return y.mark_changed(where);
  }
  elementwise::check_into("add_", ops::Domain::number, y, x, y, where);
  elementwise::check_can_hold("add_", y, promote(y.dtype(), alpha), where);
  const Tensor from = elementwise::without_overlap(x, y, where);
  if (y.device().is_cuda()) {
    cuda::add_scaled(y, from, alpha, where);
    return y.mark_changed(where);
  }
  const DType math = math_dtype(y.dtype());
  elementwise::dispatch<ops::Domain::number>(math, [&]<class T>() {
    cpu::map({add_scaled_loop<T>, &alpha, {math, math}, math}, y, {&y, &from});
  });
  y.mark_changed(where);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  RINGRAD_CHECK(condition.dtype(where) == DType::bool_, DTypeError, where,
                "where: the condition must be bool; got ", condition.dtype());
  check_same_device("where", condition, a, where);
  check_same_device("where", a, b, where);
  const Shape shape = broadcast_shapes(
      "where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape(), where), where);
  const DType dtype = promote(a, b);
  const DType math = math_dtype(dtype);
  Tensor y = elementwise::empty_for(shape, dtype, {&a, &b, &condition}, where);
  if (y.device().is_cuda()) {
    cuda::where(condition, a, b, y, where);
    return y;
  }
  elementwise::dispatch<ops::Domain::any>(math, [&]<class T>() {
    cpu::map({where_loop<T>, nullptr, {DType::bool_, math, math}, math}, y, {&condition, &a, &b});
  });
  return y;
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight, Where where) {
  check_same_device("lerp", a.device(where), b.device(where), where);
  check_same_device("lerp", a.device(), weight.device(where), where);
  const Shape shape = broadcast_shapes(
      "lerp", broadcast_shapes("lerp", a.shape(), b.shape(), where), weight.shape(), where);
  const DType dtype =
      elementwise::compute_dtype("lerp", ops::Domain::real, promote({&a, &b, &weight}), where);
  const DType math = math_dtype(dtype);
  Tensor y = elementwise::empty_for(shape, dtype, {&a, &b, &weight}, where);
  if (y.device().is_cuda()) {
    cuda::lerp(a, b, weight, y, where);
    return y;
  }
  elementwise::dispatch<ops::Domain::real>(math, [&]<class T>() {
    cpu::map({lerp_loop<T>, nullptr, {math, math, math}, math}, y, {&a, &b, &weight});
  });
  return y;
}

}  // namespace ringrad::kernels
