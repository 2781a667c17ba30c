// The weight gradient of depthwise convolution, where each channel is its own group: for each tap
// the product of two images, summed over their pixels.
//
// Sixteen channels are one vector. The sums of a row of taps stay in registers while the loop runs
// over some rows of pixels, and each output's gradient meets S inputs; then they are added to
// totals in double. Images are summed in fixed chunks, so the result does not depend on the number
// of threads.

#include <algorithm>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/convolution/convolution_kernels.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/register_tile.h"

namespace ringrad::kernels::cpu::depthwise {
namespace {

using Vec = Vector<float>;
constexpr std::int64_t kLanes = Vec::kLanes;
constexpr std::int64_t kBlock = 64;  // pixels that floats sum, or a row if it has more

/// Adds N vectors of float sums to their totals, and clears them.
template <int N>
[[gnu::always_inline]] inline void flush(Vec::type* sum, double* totals) {
  float sums[N * kLanes];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    Vec::at(sums + i * kLanes) = sum[i];
    sum[i] = Vec::type{};
  }
  for (int i = 0; i < N * kLanes; ++i) totals[i] += static_cast<double>(sums[i]);
}

/// totals[s] += sum over images [begin, end), p and q of grad_y[b, p, q] * x[b, h, w] for tap
/// (r, s), each a vector of channels.
template <int S>
RINGRAD_CLONES void sum_row_of_taps(const ConvolutionGeometry& g, std::int64_t r,
                                    std::int64_t begin, std::int64_t end, const float* x,
                                    const float* grad_y, double* totals) {
  const auto& [rank, stride, padding, dilation, groups] = g.options;
  typename Vec::type sum[S] = {};
  const std::int64_t rows = std::max<std::int64_t>(1, kBlock / g.Q);  // between flushes
  for (std::int64_t row = begin * g.P; row < end * g.P; ++row) {
    if (row % rows == 0) flush<S>(sum, totals);
    const std::int64_t h = row % g.P * stride[1] + r * dilation[1] - padding[1];
    if (h < 0 || h >= g.H) continue;
    const float* in = x + (row / g.P * g.H + h) * g.W * g.C;
    const float* grads = grad_y + row * g.Q * g.C;
    for (std::int64_t q = 0; q < g.Q; ++q) {
      const typename Vec::type grad = Vec::at(grads + q * g.C);
      const std::int64_t first = q * stride[2] - padding[2];
      const bool inside = first >= 0 && first + (S - 1) * dilation[2] < g.W;
#pragma GCC unroll 8
      for (int s = 0; s < S; ++s) {
        const std::int64_t w = first + s * dilation[2];
        if (inside || (w >= 0 && w < g.W)) sum[s] += grad * Vec::at(in + w * g.C);
      }
    }
  }
  flush<S>(sum, totals);
}

template <int S>
void backward_weight(const ConvolutionGeometry& g, const float* x, const float* grad_y,
                     float* grad_weight) {
  constexpr std::int64_t kMostChunks = 8;
  const std::int64_t chunks = std::min(g.B, kMostChunks), sums = g.R * S;
  std::vector<double> parts(static_cast<std::size_t>(g.C * chunks * sums));
  parallel_for(g.C / kLanes * chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t channel = piece / chunks * kLanes, chunk = piece % chunks;
      const std::int64_t begin = chunk * g.B / chunks, end = (chunk + 1) * g.B / chunks;
      double* part = parts.data() + piece * sums * kLanes;
      for (std::int64_t r = 0; r < g.R; ++r)
        sum_row_of_taps<S>(g, r, begin, end, x + channel, grad_y + channel, part + r * S * kLanes);
    }
  });
  for (std::int64_t c = 0; c < g.C; ++c)
    for (std::int64_t i = 0; i < sums; ++i) {
      const double* part = parts.data() + (c / kLanes * chunks * sums + i) * kLanes + c % kLanes;
      double total = 0;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) total += part[chunk * sums * kLanes];
      grad_weight[c * sums + i] = static_cast<float>(total);
    }
}

}  // namespace

bool supports(const ConvolutionGeometry& g) {
  return g.is_flat() && g.C == g.options.groups && g.K == g.C && g.C % kLanes == 0 &&
         (g.S == 5 || g.S == 7);
}

void convolution_backward_weight(const ConvolutionGeometry& g, const float* x, const float* grad_y,
                                 float* grad_weight) {
  g.S == 5 ? backward_weight<5>(g, x, grad_y, grad_weight)
           : backward_weight<7>(g, x, grad_y, grad_weight);
}

}  // namespace ringrad::kernels::cpu::depthwise
