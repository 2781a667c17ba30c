// Three implementations: oneDNN for large float32 products; multiply_few_rows() for those of at
// most four rows; and packed loops for float64 and for products so small that the call to oneDNN,
// with its OpenMP region, would take most of the time.
//
// The packed loops take 2 vectors of columns of b at a time, so that they read any order of b
// sequentially, and go down the rows of a in register tiles:
//
//     b (K, N) --pack--> panel (K, 2 vectors), zeros beyond N
//     for each 8 rows of a:  tile = a rows * panel;  out = relu(tile + bias), the first N columns

#include "ringrad/kernels/matmul/matmul_cpu.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/library/onednn.h"
#include "ringrad/kernels/matmul/few_rows_cpu.h"
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

/// A batch of matrices in oneDNN's terms. A single matrix is described with two axes. A matrix that
/// serves the whole batch is described as a batch of 1, with the batch stride it would have: oneDNN
/// has fast code for these, but only its reference loops for a stride of 0.
dnnl::memory::desc describe(std::int64_t batch, std::int64_t batch_stride, std::int64_t rows,
                            std::int64_t columns, std::int64_t row, std::int64_t column) {
  if (batch == 1) return onednn::describe(std::array{rows, columns}, std::array{row, column});
  if (batch_stride != 0)
    return onednn::describe(std::array{batch, rows, columns},
                            std::array{batch_stride, row, column});
  return onednn::describe(std::array{std::int64_t{1}, rows, columns},
                          std::array{std::max(rows * row, columns * column), row, column});
}

onednn::Plan make_plan(const GemmProblem& g, bool with_bias) {
  const auto a = describe(g.batch, g.a_batch, g.M, g.K, g.a_row, g.a_column);
  const auto b = describe(g.batch, g.b_batch, g.K, g.N, g.b_row, g.b_column);
  const auto out = describe(g.batch, g.out_batch, g.M, g.N, g.out_row, 1);
  const auto bias = with_bias ? describe(g.batch, 0, 1, g.N, g.N, 1) : dnnl::memory::desc();

  dnnl::primitive_attr attributes;
  if (g.relu) {
    dnnl::post_ops post_ops;
    post_ops.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
    attributes.set_post_ops(post_ops);
  }
  const auto operation =
      with_bias ? dnnl::matmul::desc(a, b, bias, out) : dnnl::matmul::desc(a, b, out);
  return onednn::Plan(
      dnnl::matmul(dnnl::matmul::primitive_desc(operation, attributes, onednn::engine())),
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, out}});
}

void gemm_onednn(const GemmProblem& g, const float* a, const float* b, const float* bias,
                 float* out, Where where) {
  const onednn::PlanKey key{
      g.batch,   g.M,     g.N,        g.K,         g.a_batch, g.a_row, g.a_column,
      g.b_batch, g.b_row, g.b_column, g.out_batch, g.out_row, g.relu,  bias != nullptr};
  auto& plan = onednn::find_or_make_plan(key, "matmul", where,
                                         [&] { return make_plan(g, bias != nullptr); });
  plan.run({{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, out}},
           "matmul", where);
}

}  // namespace

void gemm(const GemmProblem& g, const float* a, const float* b, const float* bias, float* out,
          Where where) {
  if (has_few_rows(g)) return multiply_few_rows(g, a, b, bias, out);
  constexpr std::int64_t kSmall = 16'384;  // multiplications; up to here, oneDNN's call costs more
  if (g.batch * g.M * g.N * g.K <= kSmall) return gemm_packed(g, a, b, bias, out, where);
  gemm_onednn(g, a, b, bias, out, where);
}

void gemm(const GemmProblem& g, const double* a, const double* b, const double* bias, double* out,
          Where where) {
  gemm_packed(g, a, b, bias, out, where);
}

}  // namespace ringrad::kernels::cpu
