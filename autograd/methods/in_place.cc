#include "ringrad/autograd/methods/in_place.h"

#include "ringrad/autograd/flip.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/index/brackets.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/index/gather.h"

namespace ringrad {
namespace {

void check_operands(const char* operation, const Tensor& y, const Tensor& x, Where where) {
  y.check_unrecorded(operation, where);
  RINGRAD_CHECK(
      !x.requires_grad(where) || !grad_enabled(), AutogradError, where, operation,
      ": what is written in place is not recorded, so it must not require a gradient; got one "
      "made at ",
      to_string(x.made_at()), "; write y = y + x instead, or detach it");
}

template <class Op>
Tensor change(const char* name, const Tensor& y, const Tensor& x, Where where) {
  check_operands(name, y, x, where);
  kernels::binary<Op>(y, x, y, where);
  return y;
}

template <class Op>
Tensor change(const char* name, const Tensor& y, Scalar x, Where where) {
  y.check_unrecorded(name, where);
  kernels::unary(ops::RightScalar<Op>(x), y, y, where);
  return y;
}

// Writes values, of the shape of the selection, to its places.
void write(const detail::Selection& to, const Tensor& values, Where where) {
  const Shape flat = to.flat();
  const std::int64_t n = to.positions.numel();
  Shape rows = flat, along = Shape::filled(flat.size(), 1);
  rows[to.axis] = along[to.axis] = n;
  const Tensor source = reshape(values, rows, where);
  const Tensor positions = reshape(to.positions, along, where);
  const Tensor index = view::expand(positions, rows, where);
  if (const auto strides = view::reshaped_strides(to.view, flat))
    return kernels::scatter_(view::as_strided(to.view, flat, *strides, to.view.offset(), where),
                             to.axis, index, source, where);
  // The indexed axes cannot be seen as one in x's memory.
  const Tensor copy = kernels::contiguous(to.view, where);
  kernels::scatter_(view::reshape(copy, flat, where), to.axis, index, source, where);
  kernels::copy_(to.view, copy, where);
}

}  // namespace

Tensor add_(const Tensor& y, const Tensor& x, Scalar alpha, Where where) {
  check_operands("add_", y, x, where);
  kernels::add_(y, x, alpha, where);
  return y;
}
Tensor add_(const Tensor& y, Scalar x, Where where) {
  return change<ops::Add>("add_", y, x, where);
}
Tensor copy_(const Tensor& y, const Tensor& x, Where where) {
  check_operands("copy_", y, x, where);
  kernels::copy_(y, x, where);
  return y;
}

Tensor fill_(const Tensor& y, Scalar value, Where where) {
  y.check_unrecorded("fill_", where);
  kernels::fill_(y, value, where);
  return y;
}

Tensor zero_(const Tensor& y, Where where) {
  y.check_unrecorded("zero_", where);
  kernels::zero_(y, where);
  return y;
}

Tensor assign(const Tensor& x, std::span<const Index> indices, const Tensor& y, Where where) {
  check_operands("assign", x, y, where);
  const detail::Selection to = detail::select_by(x, indices, where);
  RINGRAD_CHECK(broadcasts_to(y.shape(), to.shape()), ShapeError, where,
                "assign: the values must broadcast to x[{...}]; got ", y.shape(), " and ",
                to.shape());
  if (to.count == 0 && to.reversed.empty()) {
    kernels::copy_(to.view, y, where);
    return x;
  }
  check_same_device("assign", x, y, where);
  Tensor values = view::expand(kernels::cast(y, x.dtype(), where), to.shape(), where);
  if (!to.reversed.empty()) values = flip(values, to.reversed, where);
  if (to.count == 0)
    kernels::copy_(to.view, values, where);
  else
    write(to, values, where);
  return x;
}

Tensor assign(const Tensor& x, std::initializer_list<Index> indices, const Tensor& y, Where where) {
  return assign(x, std::span(indices.begin(), indices.size()), y, where);
}

Tensor assign(const Tensor& x, std::span<const Index> indices, Scalar y, Where where) {
  x.check_unrecorded("assign", where);
  const detail::Selection to = detail::select_by(x, indices, where);
  if (to.count == 0) {
    kernels::fill_(to.view, y, where);
    return x;
  }
  const Tensor value = full({}, y, {.dtype = x.dtype(), .device = x.device()}, where);
  write(to, view::expand(value, to.shape(), where), where);
  return x;
}

Tensor assign(const Tensor& x, std::initializer_list<Index> indices, Scalar y, Where where) {
  return assign(x, std::span(indices.begin(), indices.size()), y, where);
}

Tensor operator+=(Located y, Located x) { return add_(y.tensor, x.tensor, 1, y.where); }
Tensor operator+=(Located y, Scalar x) { return add_(y.tensor, x, y.where); }

#define RINGRAD_IN_PLACE(name, op, Op)                                                   \
  Tensor name(const Tensor& y, const Tensor& x, Where where) {                           \
    return change<ops::Op>(#name, y, x, where);                                          \
  }                                                                                      \
  Tensor name(const Tensor& y, Scalar x, Where where) {                                  \
    return change<ops::Op>(#name, y, x, where);                                          \
  }                                                                                      \
  Tensor operator op(Located y, Located x) { return name(y.tensor, x.tensor, y.where); } \
  Tensor operator op(Located y, Scalar x) { return name(y.tensor, x, y.where); }
RINGRAD_IN_PLACE(sub_, -=, Sub)
RINGRAD_IN_PLACE(mul_, *=, Mul)
RINGRAD_IN_PLACE(div_, /=, Div)
#undef RINGRAD_IN_PLACE

}  // namespace ringrad
