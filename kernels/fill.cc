#include "kernels/fill.h"

#include "core/fill_cuda.h"
#include "kernels/convert.h"
#include "kernels/copy.h"

namespace ringrad::kernels {

// A fill is a copy of one broadcast element; the copy's loops know that case.
void fill_(const Tensor& x, Scalar value, Where where) {
  if (x.numel(where) == 0) return;
  if (x.device().is_cuda() && is_dense(x.shape(), x.strides())) {
    dispatch_dtype(value.dtype(), [&]<class From>() {
      dispatch_dtype(x.dtype(), [&]<class To>() {
        const To element = convert<To>(value.to<From>());
        ringrad::cuda::fill_elements(x.raw_data(), x.device(), x.numel(), &element, sizeof element,
                                     where);
      });
    });
    return x.mark_changed(where);
  }
  const Tensor number = scalar_tensor(value, {.dtype = value.dtype(), .device = x.device()}, where);
  copy_(x, cast(number, x.dtype(), where), where);
}

void zero_(const Tensor& x, Where where) { fill_(x, 0, where); }

}  // namespace ringrad::kernels
