// The forward pass of attention in registers: see attention.h for the running maximum and
// attention_registers.cuh for who computes what.
//
// Paper: Dao 2023, arXiv:2307.08691, section 3: a row is divided by its sum once, at the end

#include <cmath>
#include <cstdint>
#include <limits>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/attention/attention_cuda.h"
#include "ringrad/kernels/attention/attention_registers_scores.cuh"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The largest score so far of a thread's rows, and the thread's share of the sums of
/// exp(score - largest). The lanes of a row agree on the largest.
struct RunningSums {
  float largest[kRowsEach], sum[kRowsEach] = {};

  __device__ RunningSums() {
#pragma unroll
    for (float& value : largest) value = -kInfinity;
  }

  /// Replaces scores by exp(score - largest). rescale(i, factor) must multiply what row i has
  /// summed before.
  template <class Rescale>
  __device__ void add(Scores& x, Rescale rescale) {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      float now = largest[i];
#pragma unroll
      for (const float score : x[i]) now = larger(now, score);
      now = warp_reduce<kLanes>(now, larger);
      const float shift = now == -kInfinity ? 0 : now, factor = std::exp(largest[i] - shift);
      largest[i] = now;
      sum[i] *= factor;
      rescale(i, factor);
#pragma unroll
      for (float& score : x[i]) {
        score = std::exp(score - shift);
        sum[i] += score;
      }
    }
  }

 private:
  static __device__ float larger(float a, float b) { return b > a ? b : a; }
};

template <class T>
struct ForwardOperands {
  TileSource<T> q, k, v;
  Heads<T> output;
  float* logsumexp;
};

// A block of threads per 64 queries of a head; it goes through the keys that any of them attends
// to. Bound: arithmetic. By ptxas for sm_90, without spills, in float32:
//
//     kD                      32     64    128
//     shared memory, bytes  32768  49152  49152
//     registers               168    168    228
//
// REQUIRES: D and Dv are at most kD
template <class T, int kD>
__global__ void __launch_bounds__(kOwners, kD <= 64 ? 3 : 2)
    attention_registers(ScoreRules<float> rules, ForwardOperands<T> in) {
  using Shared = Tiles<kD>;
  RINGRAD_SHARED(Shared, tiles);
  const AttentionProblem& a = rules.a;
  const OwnedRows owned(a.T, a.H, a.causal);
  const std::int64_t b = owned.b, h = owned.h, kv = h / a.group();
  const TileHead<T> q{in.q, b, h}, k{in.k, b, kv}, v{in.v, b, kv};
  RunningSums running;
  typename Shared::Sums y = {};
  const auto [begin, end] = steps_of<Rows::queries>(a, owned);
  for (std::int64_t s0 = begin; s0 < end; s0 += kStep) {
    Scores p = {};
    tiles.multiply(p, owned, q, k, s0, s0 > begin);
    if (owned.warp_has_rows()) {
      const StepScores<Rows::queries> scores{rules, owned, h, s0};
      scores.finish(p, tiles);
      running.add(p, [&](int i, float factor) {
#pragma unroll
        for (auto& slice : y)
#pragma unroll
          for (float& sum : slice[i]) sum *= factor;
      });
      const std::uint32_t kept = scores.kept();
      for_each_score([&](int i, int j) { p[i][j] *= scores.dropout_factor(kept, i, j); });
      tiles.set_weights(p);
    }
    tiles.template add<2>(y, owned, v, s0);
  }

  float factor[kRowsEach];
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const float sum = warp_reduce<kLanes>(running.sum[i], Plus());
    factor[i] = sum == 0 ? 0 : 1 / sum;
    const std::int64_t t = owned.first + row_of(i);
    if (t < a.T && threadIdx.x % kLanes == 0)
      in.logsumexp[(b * a.H + h) * a.T + t] =
          sum == 0 ? kInfinity : running.largest[i] + std::log(sum);
  }
  write_rows<kD>(
      y, [&](int i) { return factor[i]; }, in.output, owned, a.Dv);
}

}  // namespace

bool fits_registers(const AttentionProblem& a, DType dtype) {
  return dtype != DType::float64 && a.D <= 128 && a.Dv <= 128;
}

void attention_in_registers(const AttentionForward& call, Where where) {
  const AttentionProblem& a = call.a;
  const double scores = static_cast<double>(a.B * a.H * a.T) * static_cast<double>(a.S);
  dispatch_registers(call.q.dtype(), a, [&]<class T, int kD>() {
    const ForwardOperands<T> operands{TileSource<T>(call.q), TileSource<T>(call.k),
                                      TileSource<T>(call.v), Heads<T>(call.output),
                                      call.statistics.device_data<float>()};
    launch_on(call.q.device(),
              tile_per_block("attention_registers", a.B * a.H, a.T,
                             scores * static_cast<double>(a.D + a.Dv)),
              where, attention_registers<T, kD>, ScoreRules<float>(call), operands);
  });
}

}  // namespace ringrad::kernels::cuda
