#include "ringrad/kernels/order/searchsorted.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/order/order_key.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels {
namespace {

void search_on_cpu(const Tensor& sorted, const Tensor& values, std::int64_t per_line, bool right,
                   const Tensor& places) {
  constexpr std::int64_t kGrain = 1 << 9;
  const std::int64_t n = sorted.shape().back();
  auto* to = places.data<std::int64_t>();
  dispatch_dtype(sorted.dtype(), [&]<class T>() {
    const T *lines = sorted.data<T>(), *from = values.data<T>();
    parallel_for(values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = place_in(lines + i / per_line * n, n, from[i], right);
    });
  });
}

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, Where where) {
  check_same_dtype("searchsorted", sorted, values, where);
  check_same_device("searchsorted", sorted, values, where);
  RINGRAD_CHECK(sorted.dims() > 0, ShapeError, where,
                "searchsorted: sorted elements must have an axis; got shape ", sorted.shape());
  bool fits = sorted.dims() == 1 || sorted.dims() == values.dims();
  for (int i = 0; i + 1 < sorted.dims(); ++i) fits = fits && sorted.shape()[i] == values.shape()[i];
  RINGRAD_CHECK(fits, ShapeError, where,
                "searchsorted: shapes must be equal before the last axis, unless there is one "
                "sorted line; got ",
                sorted.shape(), " and ", values.shape());
  const Tensor places =
      empty(values.shape(), {.dtype = DType::int64, .device = values.device()}, where);
  if (places.numel() == 0) return places;
  const std::int64_t per_line = sorted.dims() == 1 ? values.numel() : values.shape().back();
  const Tensor lines = contiguous(sorted, where), wanted = contiguous(values, where);
  if (sorted.device().is_cuda())
    cuda::searchsorted(lines, wanted, per_line, right, places, where);
  else
    search_on_cpu(lines, wanted, per_line, right, places);
  return places;
}

}  // namespace ringrad::kernels
