#include "ringrad/kernels/copy/concatenate.h"

#include <algorithm>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels {
namespace {

bool agree_but_for(int axis, Shape a, const Shape& b) {
  if (a.size() != b.size()) return false;
  a[axis] = b[axis];
  return a == b;
}

}  // namespace

Tensor concatenate(std::span<const Tensor> list, std::int64_t axis, Where where) {
  RINGRAD_CHECK(!list.empty(), ValueError, where,
                "concatenate: there must be a tensor; got an empty list");
  const Tensor& first = list.front();
  const int a = normalize_axis("concatenate", axis, first.dims(where), where);
  Shape shape = first.shape();
  shape[a] = 0;
  for (const Tensor& x : list) {
    RINGRAD_CHECK(agree_but_for(a, x.shape(where), first.shape()), ShapeError, where,
                  "concatenate: shapes must agree but for axis ", a, "; got ", first.shape(),
                  " and ", x.shape());
    check_same_dtype("concatenate", first, x, where);
    check_same_device("concatenate", first, x, where);
    shape[a] += x.shape()[a];
  }
  // Tensors with one channel or one pixel are both channels_last and contiguous; they follow the
  // others.
  const bool channels_last =
      std::ranges::all_of(list, [](const Tensor& x) { return x.is_channels_last(); }) &&
      !std::ranges::all_of(list, [](const Tensor& x) { return x.is_contiguous(); });
  const Tensor result =
      empty(shape,
            {.dtype = first.dtype(),
             .device = first.device(),
             .layout = channels_last ? Layout::channels_last : Layout::contiguous},
            where);
  std::int64_t start = 0;
  for (const Tensor& x : list) {
    const std::int64_t end = start + x.shape()[a];
    copy_(view::slice(result, a, start, end, 1, where), x, where);
    start = end;
  }
  return result;
}

}  // namespace ringrad::kernels
