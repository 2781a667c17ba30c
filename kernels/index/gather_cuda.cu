// Gathering is one kernel. Scattering is a ladder:
//
//     scatter_line_per_thread    one thread adds or writes a line along the axis in the order of j:
//                                no two threads write to one place
//     sum_groups                 for a few long lines: all elements are grouped by target, and each
//                                target sums its own (index_groups_cuda.h)

#include <limits>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/index/gather.h"
#include "ringrad/kernels/index/index_check.cuh"
#include "ringrad/kernels/index/index_groups_cuda.h"
#include "ringrad/kernels/loop_nest.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();

// Extent of the indexed axis, and its stride in memory.
struct Axis {
  std::int64_t bound, step;
};

// One element per thread. Operands of the nest: index (and y), and x without the axis. Bound:
// bandwidth, to the degree that the indices allow.
template <class Element, class Index, class Unsigned>
__global__ void gather_element_per_thread(LoopNest<2> nest, std::int64_t n, Axis axis,
                                          const Element* x, const Index* index, Element* y) {
  for (const std::int64_t i : own_elements(n)) {
    const auto [at, from] = nest.element_offsets(static_cast<Unsigned>(i));
    const std::int64_t j = index[at];
    y[at] = in_bounds(j, axis.bound) ? x[from + j * axis.step] : Element();
  }
}

struct Line {
  std::int64_t length, index_step, src_step;
};

struct Add {
  template <class To, class From>
  static __device__ void put(To& to, From value) {
    to += value;
  }
};

struct Assign {
  template <class T>
  static __device__ void put(T& to, T value) {
    to = value;
  }
};

// One line of index per thread. Operands of the nest: index, src, y, all without the axis. Bound:
// latency of a line; bandwidth if there are many neighbouring lines.
template <class Put, class From, class To, class Index>
__global__ void scatter_line_per_thread(LoopNest<3> nest, std::int64_t lines, Line line, Axis axis,
                                        const Index* index, const From* src, To* y) {
  for (const std::int64_t i : own_elements(lines)) {
    const auto [index_at, src_at, y_at] = nest.element_offsets(static_cast<std::uint64_t>(i));
    for (std::int64_t j = 0; j < line.length; ++j) {
      const std::int64_t to = index[index_at + j * line.index_step];
      if (in_bounds(to, axis.bound))
        Put::put(y[y_at + to * axis.step], src[src_at + j * line.src_step]);
    }
  }
}

// keys[i] = the target of element i of index in y's memory, or y_size if it has none. Bound:
// bandwidth.
template <class Index>
__global__ void find_places(LoopNest<2> nest, std::int64_t n, Axis axis, const Index* index,
                            std::int64_t y_size, std::int32_t* keys) {
  for (const std::int64_t i : own_elements(n)) {
    const auto [at, to] = nest.element_offsets(static_cast<std::uint32_t>(i));
    const std::int64_t j = index[at];
    keys[at] = static_cast<std::int32_t>(in_bounds(j, axis.bound) ? to + j * axis.step : y_size);
  }
}

// -- Host -----------------------------------------------------------------------------------------

Strides without(Strides strides, int axis) {
  strides[axis] = 0;
  return strides;
}

template <class Put, class From, class To>
void scatter_lines(const char* name, const Tensor& y, int axis, const Tensor& index,
                   const Tensor& src, const From* from, To* to, Where where) {
  Shape shape = index.shape();
  const Strides index_strides = strides_for(shape);
  const Line line{shape[axis], index_strides[axis], src.strides()[axis]};
  shape[axis] = 1;
  const auto nest = make_loop_nest<3>(shape, {&index_strides, &src.strides(), &y.strides()});
  const std::int64_t lines = shape.numel();
  dispatch_index(index.dtype(), [&]<class Index>() {
    launch_on(y.device(), thread_per_element(name, lines), where,
              scatter_line_per_thread<Put, From, To, Index>, nest, lines, line,
              Axis{y.shape()[axis], y.strides()[axis]}, index.device_data<Index>(), from, to);
  });
}

void scatter_groups(const Tensor& y, int axis, const Tensor& index, const Tensor& src,
                    Where where) {
  const std::int64_t n = index.numel();
  const Tensor keys = empty({n}, {.dtype = DType::int32, .device = y.device()}, where);
  const Strides index_strides = strides_for(index.shape());
  const Strides y_strides = without(y.strides(), axis);
  const auto nest = make_loop_nest<2>(index.shape(), {&index_strides, &y_strides});
  dispatch_index(index.dtype(), [&]<class Index>() {
    launch_on(y.device(), thread_per_element("find_places", n), where, find_places<Index>, nest, n,
              Axis{y.shape()[axis], y.strides()[axis]}, index.device_data<Index>(), y.numel(),
              keys.device_data<std::int32_t>());
  });
  const Tensor covered =
      contiguous(view::as_strided(src, index.shape(), src.strides(), src.offset(), where), where);
  sum_groups(group_keys(keys, y.numel(), where), covered, 1, 1, -1, true, y, where);
}

}  // namespace

void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y, Where where) {
  const std::int64_t n = index.numel();
  if (n == 0) return;
  const Strides index_strides = strides_for(index.shape());
  const Strides x_strides = without(x.strides(), axis);
  const auto nest = make_loop_nest<2>(index.shape(), {&index_strides, &x_strides});
  dispatch_size(size_bytes(x.dtype()), [&]<class Element>() {
    dispatch_index(index.dtype(), [&]<class Index>() {
      const auto run = [&](auto kernel) {
        launch_on(y.device(),
                  thread_per_element(
                      "gather", n, static_cast<double>(n) * (sizeof(Index) + 2 * sizeof(Element))),
                  where, kernel, nest, n, Axis{x.shape()[axis], x.strides()[axis]},
                  reinterpret_cast<const Element*>(x.raw_data()), index.device_data<Index>(),
                  reinterpret_cast<Element*>(y.raw_data()));
      };
      n <= kMostInt32 ? run(gather_element_per_thread<Element, Index, std::uint32_t>)
                      : run(gather_element_per_thread<Element, Index, std::uint64_t>);
    });
  });
}

void scatter_add(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Where where) {
  // Below kFewLines lines, one thread per line leaves the GPU mostly idle. Sorting instead pays off
  // for lines longer than kLongLine.
  constexpr std::int64_t kFewLines = 512, kLongLine = 128;
  if (index.numel() == 0) return;
  const std::int64_t length = index.shape()[axis], lines = index.numel() / length;
  if (lines < kFewLines && length > kLongLine && can_group(index.numel(), y.numel()))
    scatter_groups(y, axis, index, src, where);
  else
    dispatch_floating(src.dtype(), [&]<class T>() {
      scatter_lines<Add>("scatter_add", y, axis, index, src,
                         static_cast<const T*>(src.device_data<T>()), y.device_data<MathType<T>>(),
                         where);
    });
}

void scatter(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Where where) {
  if (index.numel() == 0) return;
  dispatch_size(size_bytes(y.dtype()), [&]<class Element>() {
    scatter_lines<Assign>("scatter", y, axis, index, src,
                          reinterpret_cast<const Element*>(src.raw_data()),
                          reinterpret_cast<Element*>(y.raw_data()), where);
  });
}

}  // namespace ringrad::kernels::cuda
