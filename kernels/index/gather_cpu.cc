#include <algorithm>
#include <atomic>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/index/gather.h"
#include "ringrad/kernels/index/indices.h"
#include "ringrad/kernels/loop_nest.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kElementsPerThread = 1 << 13;

Strides without(Strides strides, int axis) {
  strides[axis] = 0;
  return strides;
}

// -- Gathering: rows of index in the order of memory, or pieces of long rows ----------------------

template <class Element, class Index>
bool gather_rows(const LoopNest<2>& nest, const Element* x, std::int64_t axis_step,
                 std::int64_t axis_extent, const Index* indices, Element* y) {
  constexpr std::int64_t kPiece = kElementsPerThread;
  const std::int64_t extent = nest.row_extent(), x_step = nest.row_strides()[1];
  const std::int64_t pieces = (extent + kPiece - 1) / kPiece;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerThread / extent);
  // Long pieces are checked just before they are used, short rows all at once.
  const bool checks_pieces = extent >= 16;
  if (!checks_pieces && !all_valid(indices, nest.num_rows() * extent, axis_extent)) return false;
  std::atomic<bool> all = true;
  const auto gather_piece = [&](const LoopNest<2>::Offsets& offsets, std::int64_t piece) {
    const std::int64_t end = std::min(extent, (piece + 1) * kPiece);
    const Index* from = indices + offsets[0];
    if (checks_pieces && !all_valid(from + piece * kPiece, end - piece * kPiece, axis_extent)) {
      all = false;
      return;
    }
    const Element* row = x + offsets[1];
    Element* to = y + offsets[0];
    std::int64_t i = piece * kPiece;
    if (x_step == 0 && axis_step == 1)  // along contiguous rows
#pragma GCC unroll 8
      for (; i < end; ++i) to[i] = row[from[i]];
    for (; i < end; ++i) to[i] = row[i * x_step + from[i] * axis_step];
  };
  if (pieces == 1)
    parallel_for(nest.num_rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_row(nest, begin, end,
                   [&](const LoopNest<2>::Offsets& offsets) { gather_piece(offsets, 0); });
    });
  else
    parallel_for(nest.num_rows() * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        gather_piece(nest.row_offsets(i / pieces), i % pieces);
    });
  return all;
}

// -- Scattering: bundles of lines along the axis --------------------------------------------------

// Neighbouring lines that advance together, so that index and src are read row by row. Elements of
// one line go in the order of j, and all that write to one place belong to one line.
struct Bundle {
  std::int64_t count, index_step, src_step, y_step;  // between neighbouring lines
  std::int64_t in_index = 0, in_src = 0, in_y = 0;   // where the first line starts
};

// Calls body(bundle) for all lines of a contiguous index, with the bundles split over the threads.
template <class Body>
void for_each_bundle(const Tensor& index, int axis, const Strides& src, const Strides& y,
                     Body body) {
  if (index.numel() == 0) return;
  constexpr std::int64_t kFewest = 16;  // lines of float: what a cache line holds
  constexpr std::int64_t kMost = 512;   // lines whose targets stay in the first-level cache
  const Strides strides = strides_for(index.shape());
  const int across = axis + 1 == index.dims() ? axis - 1 : index.dims() - 1;  // may be -1: no axis
  Shape bundles = index.shape();
  const std::int64_t neighbours = across < 0 ? 1 : bundles[across];
  const std::int64_t length = bundles[axis];
  bundles[axis] = 1;
  // Whole rows, unless that leaves a thread without work.
  const std::int64_t rows = bundles.numel() / neighbours;
  const std::int64_t pieces = num_pieces(index.numel(), kElementsPerThread);
  const std::int64_t width =
      rows >= pieces ? kMost : std::clamp((neighbours + pieces - 1) / pieces, kFewest, kMost);
  if (across >= 0) bundles[across] = (neighbours + width - 1) / width;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementsPerThread / length / std::min(width, neighbours));
  parallel_for(bundles.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      Bundle bundle{1, 0, 0, 0};
      std::int64_t rest = number;
      for (int i = bundles.size() - 1; i >= 0; --i) {
        std::int64_t coordinate = rest % bundles[i];
        rest /= bundles[i];
        if (i == across) {
          coordinate *= width;
          bundle.count = std::min(width, neighbours - coordinate);
          bundle.index_step = strides[i], bundle.src_step = src[i], bundle.y_step = y[i];
        }
        bundle.in_index += coordinate * strides[i];
        bundle.in_src += coordinate * src[i];
        bundle.in_y += coordinate * y[i];
      }
      body(bundle);
    }
  });
}

// Calls write(to, from) for the places of each element of index in y and src.
template <class Index, class Write>
void scatter(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Write write) {
  const Index* indices = index.data<Index>();
  const std::int64_t length = index.shape()[axis], index_step = strides_for(index.shape())[axis];
  const std::int64_t y_step = y.strides()[axis], src_step = src.strides()[axis];
  for_each_bundle(index, axis, src.strides(), y.strides(), [&](const Bundle& lines) {
    for (std::int64_t j = 0; j < length; ++j)
      for (std::int64_t l = 0; l < lines.count; ++l) {
        const Index target = indices[lines.in_index + j * index_step + l * lines.index_step];
        write(lines.in_y + l * lines.y_step + target * y_step,
              lines.in_src + j * src_step + l * lines.src_step);
      }
  });
}

}  // namespace

bool gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y) {
  if (y.numel() == 0) return true;
  const Strides strides = strides_for(index.shape()), x_strides = without(x.strides(), axis);
  const auto nest = make_loop_nest<2>(index.shape(), {&strides, &x_strides});
  bool all = true;
  dispatch_size(size_bytes(x.dtype()), [&]<class Element>() {
    dispatch_index(index.dtype(), [&]<class Index>() {
      all = gather_rows(nest, reinterpret_cast<const Element*>(x.raw_data()), x.strides()[axis],
                        x.shape()[axis], index.data<Index>(),
                        reinterpret_cast<Element*>(y.raw_data()));
    });
  });
  return all;
}

void scatter_add(const Tensor& y, int axis, const Tensor& index, const Tensor& src) {
  dispatch_math(y.dtype(), [&]<class T>() {
    dispatch_index(index.dtype(), [&]<class Index>() {
      T* to = y.data<T>();
      const T* from = src.data<T>();
      scatter<Index>(y, axis, index, src,
                     [=](std::int64_t at, std::int64_t i) { to[at] += from[i]; });
    });
  });
}

void scatter(const Tensor& y, int axis, const Tensor& index, const Tensor& src) {
  dispatch_size(size_bytes(y.dtype()), [&]<class Element>() {
    dispatch_index(index.dtype(), [&]<class Index>() {
      auto* to = reinterpret_cast<Element*>(y.raw_data());
      const auto* from = reinterpret_cast<const Element*>(src.raw_data());
      scatter<Index>(y, axis, index, src,
                     [=](std::int64_t at, std::int64_t i) { to[at] = from[i]; });
    });
  });
}

}  // namespace ringrad::kernels::cpu
