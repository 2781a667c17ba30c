// Selecting copies in the widest pieces that divide a slice. Sums are a ladder:
//
//     sum_by_scanning     each output scans all indices: one kernel, for small problems
//     sum_groups          positions are grouped by index first: an output reads only its own
//                         (index_groups_cuda.h)

#include <limits>

#include "ringrad/kernels/divisor.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/index/index_check.cuh"
#include "ringrad/kernels/index/index_groups_cuda.h"
#include "ringrad/kernels/index/index_select.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

// y[o, i, :] = x[o, indices[i], :] in pieces of several bytes.
template <class Int>
struct Slices {
  Divisor<Int> pieces;       // per slice
  Divisor<Int> num_indices;  // I
  std::int64_t size;
  std::int64_t n;  // pieces of y
};

// One piece per thread. Bound: bandwidth, if a piece is 16 bytes or neighbouring indices are close.
template <class Piece, class Index, class Int>
__global__ void select_piece_per_thread(Slices<Int> slices, const Piece* x, const Index* indices,
                                        Piece* y) {
  for (const std::int64_t at : own_elements(slices.n)) {
    const Int row = static_cast<Int>(at) / slices.pieces, o = row / slices.num_indices;
    const Int piece = static_cast<Int>(at) - row * slices.pieces;
    const std::int64_t index = indices[row - o * slices.num_indices];
    y[at] = in_bounds(index, slices.size) ? x[(o * slices.size + index) * slices.pieces + piece]
                                          : Piece();
  }
}

// One y[o, j, k] of an (outer, size, inner) tensor per thread, summed in the order of i. Bound:
// latency.
template <class T, class Index>
__global__ void sum_by_scanning(std::int64_t n, std::int64_t size, std::int64_t inner, const T* x,
                                const Index* indices, std::int64_t num_indices,
                                std::int64_t excluded, T* y) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const std::int64_t k = at % inner, j = at / inner % size, o = at / inner / size;
  MathType<T> sum = 0;
  if (j != excluded)
    for (std::int64_t i = 0; i < num_indices; ++i)
      if (indices[i] == j) sum += x[(o * num_indices + i) * inner + k];
  y[at] = T(sum);
}

// Calls body.operator()<Piece>() with the widest piece that divides `bytes`.
template <class Body>
void dispatch_piece(std::uintptr_t bytes, Body body) {
  if (bytes % 16 == 0) return body.template operator()<Pack<std::uint64_t, 2>>();
  if (bytes % 8 == 0) return body.template operator()<std::uint64_t>();
  if (bytes % 4 == 0) return body.template operator()<std::uint32_t>();
  if (bytes % 2 == 0) return body.template operator()<std::uint16_t>();
  body.template operator()<std::uint8_t>();
}

}  // namespace

void select_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   const Tensor& indices, const Tensor& y, Where where) {
  if (y.numel() == 0) return;
  const auto slice_bytes = inner * static_cast<std::int64_t>(size_bytes(x.dtype()));
  // A power of two divides `common` if it divides both the length of a slice and the addresses.
  const auto common = static_cast<std::uintptr_t>(slice_bytes) |
                      reinterpret_cast<std::uintptr_t>(x.raw_data()) |
                      reinterpret_cast<std::uintptr_t>(y.raw_data());
  const std::int64_t num_indices = indices.numel();
  dispatch_piece(common, [&]<class Piece>() {
    dispatch_index(indices.dtype(), [&]<class Index>() {
      const std::int64_t pieces = slice_bytes / static_cast<std::int64_t>(sizeof(Piece));
      const std::int64_t n = outer * num_indices * pieces;
      const auto run = [&]<class Int>() {
        launch_on(y.device(),
                  thread_per_element("index_select", n, 2 * static_cast<double>(n) * sizeof(Piece)),
                  where, select_piece_per_thread<Piece, Index, Int>,
                  Slices<Int>{static_cast<Int>(pieces), static_cast<Int>(num_indices), size, n},
                  reinterpret_cast<const Piece*>(x.raw_data()), indices.device_data<Index>(),
                  reinterpret_cast<Piece*>(y.raw_data()));
      };
      n <= std::numeric_limits<std::int32_t>::max() ? run.template operator()<std::int32_t>()
                                                    : run.template operator()<std::int64_t>();
    });
  });
}

void sum_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Tensor& indices, std::int64_t excluded, const Tensor& y, Where where) {
  constexpr std::int64_t kMostToScan =
      1 << 20;  // comparisons in total; they cost about as much as the launches of a sort
  constexpr std::int64_t kMostIndicesToScan = 256;
  if (y.numel() == 0) return;
  const std::int64_t num_indices = indices.numel();
  if (num_indices <= kMostIndicesToScan && num_indices * y.numel() <= kMostToScan) {
    dispatch_floating(x.dtype(), [&]<class T>() {
      dispatch_index(indices.dtype(), [&]<class Index>() {
        launch_on(y.device(), thread_per_element("index_sum", y.numel()), where,
                  sum_by_scanning<T, Index>, y.numel(), size, inner, x.device_data<T>(),
                  indices.device_data<Index>(), num_indices, excluded, y.device_data<T>());
      });
    });
    return;
  }
  RINGRAD_CHECK(can_group(num_indices, size), ValueError, where,
                "index_sum: on a GPU indices and the axis they select from must be fewer than "
                "2^31 - 1; got ",
                num_indices, " and ", size);
  sum_groups(group_indices(indices, size, where), x, outer, inner, excluded, false, y, where);
}

}  // namespace ringrad::kernels::cuda
