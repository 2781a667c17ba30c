// Three implementations: oneDNN for large float32 products (matmul_onednn_cpu.cc);
// multiply_few_rows() for those of at most four rows; and packed loops for float64, for matrices
// whose axes overlap, for products so small that the call to oneDNN, with its OpenMP region, would
// take most of the time, and for all others in a library without oneDNN.
//
// The packed loops take 2 vectors of columns of b at a time, so that they read any order of b
// sequentially, and go down the rows of a in register tiles:
//
//     b (K, N) --pack--> panel (K, 2 vectors), zeros beyond N
//     for each 8 rows of a:  tile = a rows * panel;  out = relu(tile + bias), the first N columns

#include "ringrad/kernels/matmul/matmul_cpu.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/library/has_onednn.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/register_tile.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr int kTileVectors = 2;
constexpr int kTileRows = 8;
constexpr std::int64_t kChunkRows = 128;  // rows that share one packing of b

template <class T>
constexpr std::int64_t kPanel = kTileVectors* Vector<T>::kLanes;  // columns

// panel[p, j] = b[p, j] for j < columns, else 0
template <class T>
void pack(const GemmProblem& g, const T* b, std::int64_t columns, T* panel) {
  for (std::int64_t p = 0; p < g.K; ++p) {
    T* row = panel + p * kPanel<T>;
    const T* from = b + p * g.b_row;
    if (g.b_column == 1)
      std::copy_n(from, columns, row);
    else
      for (std::int64_t j = 0; j < columns; ++j) row[j] = from[j * g.b_column];
    std::fill(row + columns, row + kPanel<T>, T{0});
  }
}

// Computes R rows of out from a's rows and a packed panel.
template <class T, int R>
[[gnu::always_inline]] inline void multiply_rows(const GemmProblem& g, const T* a, const T* panel,
                                                 const T* bias, std::int64_t columns, T* out) {
  T tile[R * kPanel<T>];
  multiply_tile<T, R, kTileVectors, false>(g.K, {a, g.a_row, g.a_column}, panel, kPanel<T>, tile,
                                           kPanel<T>);
  for (int i = 0; i < R; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const T value = bias ? tile[i * kPanel<T> + j] + bias[j] : tile[i * kPanel<T> + j];
      out[i * g.out_row + j] = g.relu && value < 0 ? T{0} : value;
    }
}

template <class T>
RINGRAD_CLONES void multiply_panel(const GemmProblem& g, std::int64_t rows, const T* a, const T* b,
                                   const T* bias, std::int64_t columns, T* panel, T* out) {
  pack(g, b, columns, panel);
  std::int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows)
    multiply_rows<T, kTileRows>(g, a + m * g.a_row, panel, bias, columns, out + m * g.out_row);
  for (; m < rows; ++m)
    multiply_rows<T, 1>(g, a + m * g.a_row, panel, bias, columns, out + m * g.out_row);
}

// Memory for a panel: kept by this thread, or, for a panel too large to keep, a tensor's.
template <class T>
T* panel_memory(std::int64_t size, Tensor& memory, Where where) {
  constexpr std::int64_t kMostKept = 1 << 17;
  if (size > kMostKept) {
    memory = empty({size}, {.dtype = dtype_of<T>}, where);
    return memory.data<T>();
  }
  thread_local std::vector<T> kept;
  kept.resize(static_cast<std::size_t>(size));
  return kept.data();
}

template <class T>
void gemm_packed(const GemmProblem& g, const T* a, const T* b, const T* bias, T* out, Where where) {
  const std::int64_t panels = (g.N + kPanel<T> - 1) / kPanel<T>;
  const std::int64_t chunks = (g.M + kChunkRows - 1) / kChunkRows;
  // A piece should have at least 100,000 multiplications, about 10 us.
  const std::int64_t work = std::min(g.M, kChunkRows) * kPanel<T> * std::max<std::int64_t>(g.K, 1);
  parallel_for(g.batch * panels * chunks, 1 + 100'000 / work,
               [&](std::int64_t begin, std::int64_t end) {
                 Tensor memory;
                 T* panel = panel_memory<T>(g.K * kPanel<T>, memory, where);
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   const std::int64_t n = unit / (panels * chunks);
                   const std::int64_t m = unit / panels % chunks * kChunkRows;
                   const std::int64_t j = unit % panels * kPanel<T>;
                   multiply_panel(g, std::min(kChunkRows, g.M - m), a + n * g.a_batch + m * g.a_row,
                                  b + n * g.b_batch + j * g.b_column, bias ? bias + j : nullptr,
                                  std::min(kPanel<T>, g.N - j), panel,
                                  out + n * g.out_batch + m * g.out_row + j);
                 }
               });
}

}  // namespace

void gemm(const GemmProblem& g, const float* a, const float* b, const float* bias, float* out,
          Where where) {
  if (has_few_rows(g)) return multiply_few_rows(g, a, b, bias, out);
  constexpr std::int64_t kSmall = 16'384;  // multiplications; up to here, oneDNN's call costs more
  if (g.batch * g.M * g.N * g.K <= kSmall) return gemm_packed(g, a, b, bias, out, where);
  if constexpr (kHasOneDnn)
    if (onednn::can_describe(g)) return onednn::gemm(g, a, b, bias, out, where);
  gemm_packed(g, a, b, bias, out, where);
}

void gemm(const GemmProblem& g, const double* a, const double* b, const double* bias, double* out,
          Where where) {
  gemm_packed(g, a, b, bias, out, where);
}

}  // namespace ringrad::kernels::cpu
