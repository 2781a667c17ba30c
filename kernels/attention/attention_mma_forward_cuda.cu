// The forward pass of attention on tensor cores: see attention.h for the running maximum and
// attention_mma.cuh for who computes what.
//
// Paper: Dao 2023, arXiv:2307.08691, section 3: rows are divided among warps, so that no warp waits
//        for another's scores, and a row is divided by its sum once, at the end

#include "ringrad/kernels/attention/attention_cuda.h"
#include "ringrad/kernels/attention/attention_mma_launch.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The largest score so far of a lane's two rows, in powers of two, and its share of the sums of
/// exp2(score - largest). The four lanes of a row agree on the largest.
struct RunningSums {
  float largest[2] = {-kInfinity, -kInfinity}, sum[2] = {};

  /// Replaces the scores of a step by exp2(score - largest). What was summed before it must be
  /// multiplied by `rescale`.
  template <int kBlocks>
  __device__ void add(Blocks<kBlocks>& x, float (&rescale)[2]) {
    float now[2] = {largest[0], largest[1]}, shift[2];
    for_each_number<kBlocks>(
        [&](int j, int h, int e, int i, int) { now[i] = larger(now[i], x[j][h][e]); });
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      now[i] = warp_reduce<4>(now[i], larger);
      shift[i] = now[i] == -kInfinity ? 0 : now[i];
      rescale[i] = std::exp2(largest[i] - shift[i]);
      largest[i] = now[i];
      sum[i] *= rescale[i];
    }
    for_each_number<kBlocks>([&](int j, int h, int e, int i, int) {
      x[j][h][e] = std::exp2(x[j][h][e] - shift[i]);
      sum[i] += x[j][h][e];
    });
  }

 private:
  static __device__ float larger(float a, float b) { return b > a ? b : a; }
};

template <class T>
struct ForwardOperands {
  Heads<const T> q, k, v;
  Heads<T> output;
  float* logsumexp;
};

// A block of threads per 64 queries of a head; it goes through the keys that any of them attends
// to. Bound: arithmetic. By ptxas for sm_90, without spills:
//
//     kD                     32     64     96    128
//     shared memory, bytes  8192  16384  24576  32768
//     registers               92    128    167    168
//
// REQUIRES: rows of all operands as HeadRows says; D and Dv are at most kD
template <class T, int kD>
__global__ void __launch_bounds__(kOwners, kD <= 64 ? 4 : 3)
    attention_mma(ScoreRules<float> rules, ForwardOperands<T> in) {
  using Steps = KeySteps<T, kD>;
  using Tiles = typename Steps::Tiles;
  RINGRAD_SHARED(Tiles, tiles);
  const AttentionProblem& a = rules.a;
  const OwnedRows owned(a.T, a.H, a.causal);
  const std::int64_t b = owned.b, h = owned.h;
  Steps steps(a, owned, in.k, in.v, tiles);
  Fragment q[kD / 16];
  load_rows(q, HeadRows<const T>(in.q, b, h, a.T, a.D), owned.warp_first);
  RunningSums running;
  Blocks<kD / 16> y = {};
  steps.run([&](std::int64_t s0, const uint4* keys, const uint4* values) {
    const ScorePlace<Rows::queries, Steps::kKeys> place(a, b, h, owned.warp_first, s0);
    if (!place.has_work()) return;  // the whole warp
    Blocks<Steps::kKeys / 16> p = {};
    multiply_rows<T, kD>(
        p, [&](int k) { return q[k]; }, keys);
    place.finish(rules, p);
    float rescale[2];
    running.add(p, rescale);
    for_each_number<kD / 16>([&](int j, int h2, int e, int i, int) { y[j][h2][e] *= rescale[i]; });
    add_rows<T, kD>(y, p, values);
  });

  float factor[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float sum = warp_reduce<4>(running.sum[i], Plus());
    factor[i] = sum == 0 ? 0 : 1 / sum;
    const std::int64_t t = owned.warp_first + threadIdx.x % 32 / 4 + 8 * i;
    if (t < a.T && threadIdx.x % 4 == 0)
      in.logsumexp[(b * a.H + h) * a.T + t] =
          sum == 0 ? kInfinity : (running.largest[i] + std::log2(sum)) * std::numbers::ln2_v<float>;
  }
  write_rows(y, factor, HeadRows<T>(in.output, b, h, a.T, a.Dv), owned.warp_first);
}

}  // namespace

bool fits_tensor_cores(const AttentionProblem& a, DType dtype, const AttentionDropout& dropout) {
  const auto fits = [](std::int64_t size) { return size > 0 && size <= 128 && size % 8 == 0; };
  return size_bytes(dtype) == 2 && fits(a.D) && fits(a.Dv) && dropout.p == 0;
}

void attention_on_tensor_cores(const AttentionForward& call, Where where) {
  const AttentionProblem& a = call.a;
  const Tensor q = with_aligned_rows(call.q, where), k = with_aligned_rows(call.k, where),
               v = with_aligned_rows(call.v, where);
  const double scores = static_cast<double>(a.B * a.H * a.T) * static_cast<double>(a.S);
  dispatch_heads(call.q.dtype(), a, [&]<class T, int kD>() {
    const ForwardOperands<T> operands{Heads<const T>(q), Heads<const T>(k), Heads<const T>(v),
                                      Heads<T>(call.output), call.statistics.device_data<float>()};
    launch_on(
        call.q.device(),
        tile_per_block("attention_mma", a.B * a.H, a.T, scores * static_cast<double>(a.D + a.Dv)),
        where, attention_mma<T, kD>, ScoreRules<float>(call), operands);
  });
}

}  // namespace ringrad::kernels::cuda
