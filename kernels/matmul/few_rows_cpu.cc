// Products with at most four rows, as in generation. The other matrix is read once, in place: the
// time to read it is the limit, and packing it would read it twice.
//
//     columns of b contiguous (y = x W^T)         rows of b contiguous (y = x W)
//
//     W  |---- a dot product ----|  -> out[j]     b  | panel | panel |   rows of a panel, times
//        |---- a dot product ----|                   |   |   |   |   |   a[p], are added up in
//        16 at a time                                    v       v       registers

#include <algorithm>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/matmul/matmul_cpu.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/register_tile.h"
#include "ringrad/kernels/vector_lanes.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kMostRows = 4;
constexpr std::int64_t kLanes = Vector<float>::kLanes;
constexpr int kPanelVectors = 8;  // the accumulators that keep the adders of a core busy

void finish(const GemmProblem& g, const float* bias, std::int64_t count, const float* sums,
            float* out) {
  for (std::int64_t j = 0; j < count; ++j) {
    const float value = bias ? sums[j] + bias[j] : sums[j];
    out[j] = g.relu && value < 0 ? 0 : value;
  }
}

// sums[i] = a . column i of b, for kLanes columns with contiguous elements; those from `count` on
// repeat the last one.
[[gnu::always_inline]] inline void multiply_columns(const GemmProblem& g, const float* a,
                                                    const float* b, std::int64_t count,
                                                    float* sums) {
  using Vec = Vector<float>;
  constexpr int kTogether = 4;  // columns read at a time, so that memory is read nearly in order
  const std::int64_t whole = g.K / kLanes * kLanes;
  Vec::type lanes[kLanes] = {};
  const float* columns[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) columns[i] = b + std::min(i, count - 1) * g.b_column;
#pragma GCC unroll 4
  for (int first = 0; first < kLanes; first += kTogether)
    for (std::int64_t p = 0; p < whole; p += kLanes) {
      const Vec::type left = Vec::at(a + p);
#pragma GCC unroll 4
      for (int i = first; i < first + kTogether; ++i) lanes[i] += left * Vec::at(columns[i] + p);
    }
  sum_each<float>(lanes);
  Vec::at(sums) = lanes[0];
  for (std::int64_t p = whole; p < g.K; ++p)
    for (std::int64_t i = 0; i < kLanes; ++i) sums[i] += a[p] * columns[i][p];
}

RINGRAD_CLONES void multiply_column_blocks(const GemmProblem& g, const float* a, const float* b,
                                           const float* bias, std::int64_t begin, std::int64_t end,
                                           float* out) {
  for (std::int64_t j = begin; j < end; j += kLanes) {
    const std::int64_t count = std::min(kLanes, end - j);
    for (std::int64_t m = 0; m < g.M; ++m) {
      float sums[kLanes];
      multiply_columns(g, a + m * g.a_row, b + j * g.b_column, count, sums);
      finish(g, bias ? bias + j : nullptr, count, sums, out + m * g.out_row + j);
    }
  }
}

// A panel of V vectors of columns of b, whose rows are contiguous, for all rows of a.
template <int V>
[[gnu::always_inline]] inline void multiply_panel(const GemmProblem& g, const float* a,
                                                  const float* b, const float* bias, float* out) {
  for (std::int64_t m = 0; m < g.M; ++m) {
    float sums[V * kLanes];
    multiply_tile<float, 1, V, false>(g.K, {a + m * g.a_row, 0, 1}, b, g.b_row, sums, V * kLanes);
    finish(g, bias, V * kLanes, sums, out + m * g.out_row);
  }
}

RINGRAD_CLONES void multiply_panels(const GemmProblem& g, const float* a, const float* b,
                                    const float* bias, std::int64_t begin, std::int64_t end,
                                    float* out) {
  const auto from = [&](std::int64_t j) { return bias ? bias + j : nullptr; };
  std::int64_t j = begin;
  for (; j + kPanelVectors * kLanes <= end; j += kPanelVectors * kLanes)
    multiply_panel<kPanelVectors>(g, a, b + j, from(j), out + j);
  for (; j + kLanes <= end; j += kLanes) multiply_panel<1>(g, a, b + j, from(j), out + j);
  for (; j < end; ++j)
    for (std::int64_t m = 0; m < g.M; ++m) {
      float sum = 0;
      for (std::int64_t p = 0; p < g.K; ++p) sum += a[m * g.a_row + p] * b[p * g.b_row + j];
      finish(g, from(j), 1, &sum, out + m * g.out_row + j);
    }
}

}  // namespace

bool has_few_rows(const GemmProblem& g) {
  return g.M <= kMostRows && g.a_column == 1 && (g.b_row == 1 || g.b_column == 1);
}

void multiply_few_rows(const GemmProblem& g, const float* a, const float* b, const float* bias,
                       float* out) {
  const auto multiply = g.b_row == 1 ? multiply_column_blocks : multiply_panels;
  const std::int64_t blocks = (g.N + kLanes - 1) / kLanes;
  // 256 KB of b take about 5 us.
  const std::int64_t grain = 1 + 65'536 / (std::max<std::int64_t>(1, g.K) * kLanes);
  parallel_for(g.batch * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t n = begin / blocks, last = std::min(end, (n + 1) * blocks);
      multiply(g, a + n * g.a_batch, b + n * g.b_batch, bias, (begin - n * blocks) * kLanes,
               std::min(g.N, (last - n * blocks) * kLanes), out + n * g.out_batch);
      begin = last;
    }
  });
}

}  // namespace ringrad::kernels::cpu
