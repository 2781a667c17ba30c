// Matrix products by oneDNN, for float32. Nothing is left of this file in a library without oneDNN.

#include "ringrad/kernels/library/has_onednn.h"

#if RINGRAD_ONEDNN

#include <algorithm>
#include <array>
#include <utility>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/library/onednn.h"
#include "ringrad/kernels/matmul/matmul_cpu.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu::onednn {
namespace {

namespace glue = ringrad::kernels::onednn;

/// A batch of matrices in oneDNN's terms. A single matrix is described with two axes. A matrix that
/// serves the whole batch is described as a batch of 1, with the batch stride it would have: oneDNN
/// has fast code for these, but only its reference loops for a stride of 0.
dnnl::memory::desc describe(std::int64_t batch, std::int64_t batch_stride, std::int64_t rows,
                            std::int64_t columns, std::int64_t row, std::int64_t column) {
  if (batch == 1) return glue::describe(std::array{rows, columns}, std::array{row, column});
  if (batch_stride != 0)
    return glue::describe(std::array{batch, rows, columns}, std::array{batch_stride, row, column});
  return glue::describe(std::array{std::int64_t{1}, rows, columns},
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

glue::Plan make_plan(const GemmProblem& g, bool with_bias) {
  const auto a = describe(g.batch, g.a_batch, g.M, g.K, g.a_row, g.a_column);
  const auto b = describe(g.batch, g.b_batch, g.K, g.N, g.b_row, g.b_column);
  const auto out = describe(g.batch, g.out_batch, g.M, g.N, g.out_row, 1);
  const auto bias = with_bias ? describe(g.batch, 0, 1, g.N, g.N, 1) : dnnl::memory::desc();

  const auto operation = with_bias ? glue::operation<dnnl::matmul>(a, b, bias, out)
                                   : glue::operation<dnnl::matmul>(a, b, out);
  return glue::Plan(
      dnnl::matmul(operation),
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

void multiply(const GemmProblem& g, const float* a, const float* b, const float* bias, float* out,
              Where where) {
  const glue::PlanKey key{g.batch,        g.M,       g.N,     g.K,        g.a_batch,   g.a_row,
                          g.a_column,     g.b_batch, g.b_row, g.b_column, g.out_batch, g.out_row,
                          bias != nullptr};
  auto& plan =
      glue::find_or_make_plan(key, "matmul", where, [&] { return make_plan(g, bias != nullptr); });
  plan.run({{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, out}},
           "matmul", where);
  if (g.relu) relu_in_place(g, out);
}

}  // namespace

bool can_describe(const GemmProblem& g) {
  return is_describable(g.batch, g.a_batch, g.M, g.K, g.a_row, g.a_column) &&
         is_describable(g.batch, g.b_batch, g.K, g.N, g.b_row, g.b_column);
}

void gemm(const GemmProblem& g, const float* a, const float* b, const float* bias, float* out,
          Where where) {
  if (!must_be_single(g)) return multiply(g, a, b, bias, out, where);
  GemmProblem single = g;
  single.batch = 1;
  for (std::int64_t i = 0; i < g.batch; ++i)
    multiply(single, a + i * g.a_batch, b + i * g.b_batch, bias, out + i * g.out_batch, where);
}

}  // namespace ringrad::kernels::cpu::onednn

#endif
