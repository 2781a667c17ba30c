#include "ringrad/autograd/flip.h"

#include <utility>

#include "ringrad/autograd/function.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/flip.h"

namespace ringrad {

Tensor flip(const Tensor& x, const Shape& axes, Where where) {
  Tensor y = axes.empty() ? kernels::clone(x, where) : kernels::flip(x, axes, where);
  return record_linear("flip", where, std::move(y), x,
                       [axes](const Tensor& grad) { return flip(grad, axes); });
}

}  // namespace ringrad
