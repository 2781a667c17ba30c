#include <algorithm>

#include "ringrad/kernels/index/gather.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// A line of a contiguous index tensor along the axis, and where it starts in two other tensors.
//
//     index, as seen from the axis:  (outer, J, inner);   line (o, k) holds index[o, :, k]
//
// The other tensors may have any strides and be longer, so the line's coordinates are computed axis
// by axis.
struct Line {
  std::int64_t in_index = 0, in_a = 0, in_b = 0;
};

Line line_at(std::int64_t number, int axis, const Shape& shape, const Strides& index_strides,
             const Strides& a, const Strides& b) {
  Line line;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (i == axis) continue;
    const std::int64_t coordinate = number % shape[i];
    number /= shape[i];
    line.in_index += coordinate * index_strides[i];
    line.in_a += coordinate * a[i];
    line.in_b += coordinate * b[i];
  }
  return line;
}

// Calls body(line) for every line of index, with the lines split over the threads.
template <class Body>
void for_each_line(const Tensor& index, int axis, const Strides& a, const Strides& b, Body body) {
  if (index.numel() == 0) return;
  constexpr std::int64_t kGrain = 1 << 13;
  const std::int64_t length = index.shape()[axis];
  const Strides strides = strides_for(index.shape());
  parallel_for(index.numel() / length, std::max<std::int64_t>(1, kGrain / length),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t number = begin; number < end; ++number)
                   body(line_at(number, axis, index.shape(), strides, a, b));
               });
}

// Dispatches to the dtype in which sums are kept.
template <class Body>
void dispatch_wide(DType dtype, Body body) {
  if (dtype == DType::float64) return body.template operator()<double>();
  body.template operator()<float>();
}

}  // namespace

void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  const std::int64_t length = index.shape()[axis];
  const std::int64_t step = strides_for(index.shape())[axis];
  const std::int64_t x_step = x.strides()[axis], y_step = y.strides()[axis];
  dispatch_dtype(x.dtype(), [&]<class T>() {
    dispatch_index(index.dtype(), [&]<class Index>() {
      const T* from = x.data<T>();
      T* to = y.data<T>();
      const Index* indices = index.data<Index>();
      for_each_line(index, axis, x.strides(), y.strides(), [&](const Line& line) {
        for (std::int64_t j = 0; j < length; ++j)
          to[line.in_b + j * y_step] = from[line.in_a + indices[line.in_index + j * step] * x_step];
      });
    });
  });
}

void scatter_add(const Tensor& y, int axis, const Tensor& index, const Tensor& src) {
  const std::int64_t length = index.shape()[axis];
  const std::int64_t step = strides_for(index.shape())[axis];
  const std::int64_t y_step = y.strides()[axis], src_step = src.strides()[axis];
  dispatch_wide(y.dtype(), [&]<class T>() {
    dispatch_index(index.dtype(), [&]<class Index>() {
      const T* from = src.data<T>();
      T* to = y.data<T>();
      const Index* indices = index.data<Index>();
      for_each_line(index, axis, src.strides(), y.strides(), [&](const Line& line) {
        for (std::int64_t j = 0; j < length; ++j)
          to[line.in_b + indices[line.in_index + j * step] * y_step] +=
              from[line.in_a + j * src_step];
      });
    });
  });
}

}  // namespace ringrad::kernels::cpu
