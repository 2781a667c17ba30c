#include "ringrad/autograd/in_place.h"

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/node.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {
namespace {

std::string describe(const Tensor& x) {
  const Node* node = node_of(x);
  if (!node || node->is_leaf()) return concat("a leaf made at ", to_string(x.made_at()));
  return concat("the result of ", node->name(), " at ", to_string(node->where()));
}

void check_writable(const char* operation, const Tensor& y, Where where) {
  RINGRAD_CHECK(!y.requires_grad(where) || !grad_enabled(), AutogradError, where, operation,
                ": a tensor that requires a gradient must not be changed while operations are "
                "recorded; got ",
                describe(y), "; write y = y + x instead, or change it under NoGrad");
}

void check_operands(const char* operation, const Tensor& y, const Tensor& x, Where where) {
  check_writable(operation, y, where);
  RINGRAD_CHECK(
      !x.requires_grad(where) || !grad_enabled(), AutogradError, where, operation,
      ": what is written in place is not recorded, so it must not require a gradient; got ",
      describe(x), "; write y = y + x instead, or detach it");
}

template <class Op>
Tensor change(const char* name, const Tensor& y, const Tensor& x, Where where) {
  check_operands(name, y, x, where);
  kernels::binary<Op>(y, x, y, where);
  return y;
}

template <class Op>
Tensor change(const char* name, const Tensor& y, Scalar x, Where where) {
  check_writable(name, y, where);
  kernels::unary(ops::RightScalar<Op>(x), y, y, where);
  return y;
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
Tensor sub_(const Tensor& y, const Tensor& x, Where where) {
  return change<ops::Sub>("sub_", y, x, where);
}
Tensor sub_(const Tensor& y, Scalar x, Where where) {
  return change<ops::Sub>("sub_", y, x, where);
}
Tensor mul_(const Tensor& y, const Tensor& x, Where where) {
  return change<ops::Mul>("mul_", y, x, where);
}
Tensor mul_(const Tensor& y, Scalar x, Where where) {
  return change<ops::Mul>("mul_", y, x, where);
}
Tensor div_(const Tensor& y, const Tensor& x, Where where) {
  return change<ops::Div>("div_", y, x, where);
}
Tensor div_(const Tensor& y, Scalar x, Where where) {
  return change<ops::Div>("div_", y, x, where);
}

Tensor copy_(const Tensor& y, const Tensor& x, Where where) {
  check_operands("copy_", y, x, where);
  kernels::copy_(y, x, where);
  return y;
}

Tensor fill_(const Tensor& y, Scalar value, Where where) {
  check_writable("fill_", y, where);
  kernels::fill_(y, value, where);
  return y;
}

Tensor zero_(const Tensor& y, Where where) {
  check_writable("zero_", y, where);
  kernels::zero_(y, where);
  return y;
}

Tensor operator+=(Located y, Located x) { return add_(y.tensor, x.tensor, 1, y.where); }
Tensor operator+=(Located y, Scalar x) { return add_(y.tensor, x, y.where); }
Tensor operator-=(Located y, Located x) { return sub_(y.tensor, x.tensor, y.where); }
Tensor operator-=(Located y, Scalar x) { return sub_(y.tensor, x, y.where); }
Tensor operator*=(Located y, Located x) { return mul_(y.tensor, x.tensor, y.where); }
Tensor operator*=(Located y, Scalar x) { return mul_(y.tensor, x, y.where); }
Tensor operator/=(Located y, Located x) { return div_(y.tensor, x.tensor, y.where); }
Tensor operator/=(Located y, Scalar x) { return div_(y.tensor, x, y.where); }

}  // namespace ringrad
