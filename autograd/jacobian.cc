#include "ringrad/autograd/jacobian.h"

#include "ringrad/autograd/engine.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/copy/fill.h"

namespace ringrad {
namespace {

// x as the beginning of a history.
Tensor start_at(const char* operation, const Tensor& x, Where where) {
  check_floating(operation, x, where);
  return x.detach().set_requires_grad(true, where);
}

// The gradient of y by x, weighted by `weights`; zeros if y does not depend on x.
Tensor gradient_of(const Tensor& y, const Tensor& x, const Tensor& weights, BackwardOptions options,
                   Where where) {
  if (!y.requires_grad()) return zeros_like(x);
  const Tensor gradient = grad(y, x, weights, options, where);
  return gradient.defined() ? gradient : zeros_like(x);
}

}  // namespace

Tensor jacobian(const TensorFunction& f, const Tensor& x, Where where) {
  const EnableGradGuard recording;
  const Tensor at = start_at("jacobian", x, where), y = f(at);
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const Tensor unit = zeros({y.numel()}, {.dtype = y.dtype(), .device = y.device()});
    kernels::fill_(select(unit, 0, i), 1);
    rows.push_back(
        gradient_of(y, at, reshape(unit, y.shape()), {.retain_graph = true}, where).detach());
  }
  Shape shape = y.shape();
  for (const std::int64_t extent : x.shape()) shape.push_back(extent);
  if (rows.empty()) return zeros(shape, {.dtype = x.dtype(), .device = x.device()}, where);
  return reshape(stack(rows, 0, where), shape, where);
}

Tensor hessian(const TensorFunction& f, const Tensor& x, Where where) {
  return jacobian(
      [&](const Tensor& at) { return gradient_of(f(at), at, {}, {.create_graph = true}, where); },
      x, where);
}

Tensor jvp(const TensorFunction& f, const Tensor& x, const Tensor& v, Where where) {
  RINGRAD_CHECK(v.shape(where) == x.shape(where), ShapeError, where,
                "jvp: the direction must have x's shape; got ", v.shape(), " and ", x.shape());
  const EnableGradGuard recording;
  const Tensor at = start_at("jvp", x, where), y = f(at);
  const Tensor u = zeros_like(y.detach()).set_requires_grad();
  const Tensor product = gradient_of(y, at, u, {.create_graph = true}, where);  // J^T u
  return gradient_of(product, u, v, {}, where);
}

}  // namespace ringrad
