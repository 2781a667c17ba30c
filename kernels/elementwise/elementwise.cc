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
  RINGRAD_CHECK(out.numel() == 0 || !repeats_elements(out), ValueError, where, operation,
                ": each element of the tensor written to must have its own place in memory; got "
                "shape ",
                out.shape(), " with strides ", out.strides());
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
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T if_true = a[i], if_false = b[i];  // reads both, so that the choice is a mask
    y[i] = condition[i] ? if_true : if_false;
  }
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  RINGRAD_CHECK(condition.dtype(where) == DType::bool_, DTypeError, where,
                "where: the condition must be bool; got ", condition.dtype());
  check_same_device("where", condition, a, where);
  check_same_device("where", a, b, where);
  const Shape shape = broadcast_shapes(
      "where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape(), where), where);
  const DType dtype = promote(a.dtype(), b.dtype());
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

}  // namespace ringrad::kernels
