#include "ringrad/kernels/copy/fill.h"

#include "ringrad/core/check_fits.h"
#include "ringrad/core/fill_cuda.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/convert.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels {

namespace {

// x without the repeated elements of its expanded axes. All elements get the same value, so their
// order does not matter.
Tensor without_repeats(Tensor x, Where where) {
  for (int axis = 0; axis < x.dims(); ++axis)
    if (x.strides()[axis] == 0 && x.shape()[axis] > 1) x = view::slice(x, axis, 0, 1, 1, where);
  return x;
}

}  // namespace

// A fill is a copy of one broadcast element; the copy's loops handle that case fast.
void fill_(const Tensor& expanded, Scalar value, Where where) {
  check_fits("fill_", value, expanded.dtype(where), where);
  if (expanded.numel(where) == 0) return;
  const Tensor x = without_repeats(expanded, where);
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
