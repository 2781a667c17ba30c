// Three implementations: oneDNN for large float32 products; multiply_few_rows() for those of at
// most four rows; and packed loops for float64, for matrices whose axes overlap, and for products
// so small that the call to oneDNN, with its OpenMP region, would take most of the time.
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
#include "ringrad/kernels/library/onednn.h"
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

/// True if oneDNN can describe these matrices. It refuses axes that overlap, as those of windows.
bool is_describable(std::int64_t batch, std::int64_t batch_stride, std::int64_t rows,
                    std::int64_t columns, std::int64_t row, std::int64_t column) {
  std::array<std::pair<std::int64_t, std::int64_t>, 3> axes = {
      {{row, rows}, {column, columns}, {batch_stride, batch > 1 ? batch : 1}}};
  std::ranges::sort(axes);
  std::int64_t least = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride == 0 || extent == 1) continue;
    if (stride < least) return false;
    least = stride * extent;
  }
  return true;
}

/// True if oneDNN multiplies these matrices only one by one:
/// - if both operands repeat, since it takes the batch of a result from its operands;
/// - where 2.6 sums up a batch's parts of K in the memory of one matrix, on processors with AVX-512
///   (mended in 2.7.5): wrong numbers, and others in each run.
bool must_be_single(const GemmProblem& g) {
  constexpr std::int64_t kLongSum = 2048;
  const bool is_transposed = g.a_row == 1 && g.a_column > 1;
  return g.batch > 1 && ((g.a_batch == 0 && g.b_batch == 0) || (is_transposed && g.K >= kLongSum));
}

onednn::Plan make_plan(const GemmProblem& g, bool with_bias) {
  const auto a = describe(g.batch, g.a_batch, g.M, g.K, g.a_row, g.a_column);
  const auto b = describe(g.batch, g.b_batch, g.K, g.N, g.b_row, g.b_column);
  const auto out = describe(g.batch, g.out_batch, g.M, g.N, g.out_row, 1);
  const auto bias = with_bias ? describe(g.batch, 0, 1, g.N, g.N, 1) : dnnl::memory::desc();

  const auto operation =
      with_bias ? dnnl::matmul::desc(a, b, bias, out) : dnnl::matmul::desc(a, b, out);
  return onednn::Plan(
      dnnl::matmul(dnnl::matmul::primitive_desc(operation, onednn::engine())),
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, out}});
}

RINGRAD_CLONES void relu_of_row(std::int64_t count, float* x) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] < 0 ? 0 : x[i];
}

/// oneDNN's own ReLU makes 0 of NaN, so that a network which has diverged would look healthy.
void relu_in_place(const GemmProblem& g, float* out) {
  parallel_for(g.batch * g.M, 1 + 50'000 / g.N, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      relu_of_row(g.N, out + row / g.M * g.out_batch + row % g.M * g.out_row);
  });
}

void gemm_onednn(const GemmProblem& g, const float* a, const float* b, const float* bias,
                 float* out, Where where) {
  const onednn::PlanKey key{g.batch,        g.M,       g.N,     g.K,        g.a_batch,   g.a_row,
                            g.a_column,     g.b_batch, g.b_row, g.b_column, g.out_batch, g.out_row,
                            bias != nullptr};
  auto& plan = onednn::find_or_make_plan(key, "matmul", where,
                                         [&] { return make_plan(g, bias != nullptr); });
  plan.run({{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, out}},
           "matmul", where);
  if (g.relu) relu_in_place(g, out);
}

}  // namespace

void gemm(const GemmProblem& g, const float* a, const float* b, const float* bias, float* out,
          Where where) {
  if (has_few_rows(g)) return multiply_few_rows(g, a, b, bias, out);
  constexpr std::int64_t kSmall = 16'384;  // multiplications; up to here, oneDNN's call costs more
  if (g.batch * g.M * g.N * g.K <= kSmall) return gemm_packed(g, a, b, bias, out, where);
  if (!is_describable(g.batch, g.a_batch, g.M, g.K, g.a_row, g.a_column) ||
      !is_describable(g.batch, g.b_batch, g.K, g.N, g.b_row, g.b_column))
    return gemm_packed(g, a, b, bias, out, where);
  if (!must_be_single(g)) return gemm_onednn(g, a, b, bias, out, where);
  GemmProblem single = g;
  single.batch = 1;
  for (std::int64_t i = 0; i < g.batch; ++i)
    gemm_onednn(single, a + i * g.a_batch, b + i * g.b_batch, bias, out + i * g.out_batch, where);
}

void gemm(const GemmProblem& g, const double* a, const double* b, const double* bias, double* out,
          Where where) {
  gemm_packed(g, a, b, bias, out, where);
}

}  // namespace ringrad::kernels::cpu
