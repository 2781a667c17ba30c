#include "ringrad/autograd/attention/rotary_embedding.h"

#include "ringrad/autograd/function.h"

namespace ringrad {
namespace {

// Linear in x; its transpose is its inverse.
Tensor rotated(const Tensor& x, const RotaryOptions& options, bool inverse, Where where) {
  Tensor y = kernels::rotary_embedding(x, options, inverse, where);
  if (needs_grad(x))
    record("rotary_embedding", where, y, {&x}, [options, inverse](BackwardContext& context) {
      context.set(0, rotated(context.grad_output(), options, !inverse, context.where()));
    });
  return y;
}

}  // namespace

Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options, Where where) {
  return rotated(x, options, false, where);
}

}  // namespace ringrad
