// Copies on a GPU, as a ladder:
//
//     convert_strided        one element per thread: any strides, any pair of dtypes
//     transpose_tiles        tiles of 32 x 32 through shared memory, so that both sides access
//                            whole lines
//     cudaMemcpyAsync        equal layouts: the copy engine

#include <limits>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/core/gpu/launch.h"
#include "ringrad/core/transfer.h"
#include "ringrad/kernels/copy/convert.h"
#include "ringrad/kernels/copy/copy_cuda.h"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32, kTileRows = 8;

// Bound: bandwidth, to the degree that the strides allow. `to` is the same for all threads.
template <class From, class Index>
__global__ void convert_strided(LoopNest<2> nest, std::int64_t n, void* dst, DType to,
                                const From* src) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < n; i += step) {
    const auto offsets = nest.element_offsets(static_cast<Index>(i));
    const From value = src[offsets[1]];
    dispatch_dtype(to, [&]<class To>() { static_cast<To*>(dst)[offsets[0]] = convert<To>(value); });
  }
}

// Rows and columns of one matrix of a batch: dst's columns are neighbours, src's rows are
// neighbours.
struct Matrices {
  std::int64_t rows, columns;
  std::int64_t dst_row;     // distance between rows in dst
  std::int64_t src_column;  // distance between columns in src
  LoopNest<2> batch;
};

// A block of 32 x 8 threads moves one tile; blockIdx.z is the matrix. Shared memory: 32 * 33 *
// sizeof(T) bytes; the odd column keeps a column's elements in different banks. Bound: bandwidth.
template <class T>
__global__ void transpose_tiles(Matrices m, T* dst, const T* src) {
  RINGRAD_SHARED(T, tile, [kTile][kTile + 1]);
  const auto batch = m.batch.element_offsets(static_cast<std::uint32_t>(blockIdx.z));
  dst += batch[0];
  src += batch[1];
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile;
  const std::int64_t column0 = std::int64_t{blockIdx.x} * kTile;
  for (unsigned j = threadIdx.y; j < kTile; j += kTileRows) {
    const std::int64_t row = row0 + threadIdx.x, column = column0 + j;
    if (row < m.rows && column < m.columns) tile[j][threadIdx.x] = src[row + column * m.src_column];
  }
  __syncthreads();  // the tile is complete
  for (unsigned j = threadIdx.y; j < kTile; j += kTileRows) {
    const std::int64_t row = row0 + j, column = column0 + threadIdx.x;
    if (row < m.rows && column < m.columns) dst[row * m.dst_row + column] = tile[threadIdx.x][j];
  }
}

std::int64_t num_elements(const LoopNest<2>& nest) { return nest.num_rows() * nest.row_extent(); }

bool is_linear(const LoopNest<2>& nest) {
  return nest.axes == 0 || (nest.axes == 1 && nest.row_strides() == LoopNest<2>::Offsets{1, 1});
}

// Describes the nest as matrices to transpose, if possible: their axes are dst's innermost and the
// one along which src is contiguous.
bool as_matrices(const LoopNest<2>& nest, Matrices& m) {
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid along y and z
  if (nest.axes < 2 || nest.row_strides()[0] != 1 || nest.row_strides()[1] == 0) return false;
  m.batch = {};
  bool found = false;
  for (unsigned i = 0; i + 1 < static_cast<unsigned>(nest.axes); ++i) {
    if (!found && nest.strides[i][1] == 1) {
      found = true;
      m.rows = nest.extents[i];
      m.dst_row = nest.strides[i][0];
    } else {
      const auto at = static_cast<unsigned>(m.batch.axes++);
      m.batch.extents[at] = nest.extents[i];
      m.batch.strides[at] = nest.strides[i];
    }
  }
  m.columns = nest.row_extent();
  m.src_column = nest.row_strides()[1];
  return found && m.rows >= kTile / 2 && m.columns >= kTile / 2 &&
         num_elements(m.batch) <= kMostBlocks && (m.rows + kTile - 1) / kTile <= kMostBlocks;
}

template <class T>
void transpose(Device device, const Matrices& m, std::byte* dst, const std::byte* src,
               Where where) {
  const auto tiles = [](std::int64_t n) { return static_cast<unsigned>((n + kTile - 1) / kTile); };
  launch_on(
      device,
      {.name = "transpose",
       .grid = {tiles(m.columns), tiles(m.rows), static_cast<unsigned>(num_elements(m.batch))},
       .block = {kTile, kTileRows}},
      where, transpose_tiles<T>, m, reinterpret_cast<T*>(dst), reinterpret_cast<const T*>(src));
}

}  // namespace

void copy(Device device, const LoopNest<2>& nest, std::byte* dst, DType to, const std::byte* src,
          DType from, Where where) {
  const std::int64_t n = num_elements(nest);
  if (to == from && is_linear(nest))
    return copy_bytes(dst, device, src, device, static_cast<std::size_t>(n) * size_bytes(to),
                      where);
  if (Matrices m{}; to == from && as_matrices(nest, m)) {
    return dispatch_size(size_bytes(to),
                         [&]<class T>() { transpose<T>(device, m, dst, src, where); });
  }
  const LaunchConfig config{.name = "copy", .grid = num_blocks(n, kThreads), .block = kThreads};
  dispatch_dtype(from, [&]<class From>() {
    const auto* typed = reinterpret_cast<const From*>(src);
    if (n <= std::numeric_limits<std::int32_t>::max())
      launch_on(device, config, where, convert_strided<From, std::uint32_t>, nest, n, dst, to,
                typed);
    else
      launch_on(device, config, where, convert_strided<From, std::uint64_t>, nest, n, dst, to,
                typed);
  });
}

}  // namespace ringrad::kernels::cuda
