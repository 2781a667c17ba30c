#include "ringrad/autograd/autocast.h"

#include "ringrad/autograd/movement.h"

namespace ringrad {
namespace {

Tensor converted(const Tensor& x, DType dtype, Where where) {
  const bool applies = x.defined() && math_dtype(x.dtype()) == DType::float32;
  return applies ? to(x, dtype, where) : x;
}

}  // namespace

Tensor narrowed(const Tensor& x, Where where) { return converted(x, autocast_dtype(), where); }

Tensor widened(const Tensor& x, Where where) { return converted(x, DType::float32, where); }

}  // namespace ringrad
