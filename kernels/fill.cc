#include "kernels/fill.h"

#include "kernels/copy.h"

namespace ringrad::kernels {

// A fill is a copy of one broadcast element; the copy's loops know that case.
void fill_(const Tensor& x, Scalar value, Where where) {
  if (x.numel(where) == 0) return;
  const Tensor number = scalar_tensor(value, {.dtype = value.dtype()}, where);
  copy_(x, cast(number, x.dtype(), where), where);
}

void zero_(const Tensor& x, Where where) { fill_(x, 0, where); }

}  // namespace ringrad::kernels
