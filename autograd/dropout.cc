#include "ringrad/autograd/dropout.h"

#include "ringrad/autograd/function.h"
#include "ringrad/kernels/elementwise/dropout.h"

namespace ringrad {
namespace {

// Linear in x and self-adjoint.
Tensor masked(const Tensor& x, const Tensor& mask, double scale, Where where) {
  Tensor y = kernels::apply_mask(x, mask, scale, where);
  if (needs_grad(x))
    record("dropout", where, y, {&x}, [mask, scale](BackwardContext& context) {
      context.set(0, masked(context.grad_output(), mask, scale, context.where()));
    });
  return y;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator, Where where) {
  kernels::check_dropout(x, p, where);
  if (!training || p == 0) return x;
  return masked(x, kernels::dropout_mask(x, p, generator, where), kernels::dropout_scale(p), where);
}

}  // namespace ringrad
