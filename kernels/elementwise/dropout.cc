#include "ringrad/kernels/elementwise/dropout.h"

#include "ringrad/kernels/copy/dense.h"

namespace ringrad::kernels {

double dropout_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

void check_dropout(const Tensor& x, double p, Where where) {
  check_floating("dropout", x, where);
  RINGRAD_CHECK(p >= 0 && p <= 1, ValueError, where, "dropout: p must be in [0, 1]; got ", p);
}

Tensor dropout_mask(const Tensor& x, double p, Generator& generator, Where where) {
  check_dropout(x, p, where);
  const Tensor mask = empty_like(x, DType::uint8, where);
  bernoulli_(mask, 1 - p, generator, where);
  return mask;
}

Tensor apply_mask(const Tensor& x, const Tensor& mask, double scale, Where where) {
  const Tensor input = dense(x, where);
  const Tensor y = empty_like(input, where);
  const Tensor ordered = in_order_of(mask, input, where);
  if (x.device().is_cuda())
    cuda::apply_mask(input, ordered, scale, y, where);
  else
    cpu::apply_mask(input, ordered, scale, y);
  return y;
}

}  // namespace ringrad::kernels
