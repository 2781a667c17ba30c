// The gradients of attention in registers: formulas in attention.h, the division of work in
// attention_registers.cuh. Both kernels recompute the scores.
//
//     attention_registers_grad_q      a block of threads owns 64 queries, and steps through keys
//     attention_registers_grad_kv     it owns 64 keys, and steps through the queries of each head
//                                     that uses them
//
// Every sum has one owner, which adds in a fixed order, so each run gives the same bits.
//
// Paper: Dao 2023, arXiv:2307.08691, section 3.1.2 and algorithm 2

#include <cmath>
#include <cstdint>
#include <limits>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/attention/attention_cuda.h"
#include "ringrad/kernels/attention/attention_registers_scores.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <class T>
struct BackwardOperands {
  TileSource<T> q, k, v, grad_output;
  const float *logsumexp, *delta;

  /// From products of q and k to probabilities, as weights. They wait in shared memory for the
  /// other product, because registers are scarce.
  template <Rows kRows, int kD>
  __device__ void set_probabilities(const StepScores<kRows>& scores, Scores& x,
                                    Tiles<kD>& tiles) const {
    scores.finish(x, tiles);
    float lse[kRowsEach];
    load(scores, logsumexp, std::numeric_limits<float>::infinity(), lse);
    for_each_score([&](int i, int j) {
      x[i][j] = std::exp(at_most_zero(x[i][j] - lse[kRows == Rows::queries ? i : j]));
    });
    tiles.set_weights(x);
  }

  /// From products of grad and v to the gradients of the products of q and k, without the factor
  /// scale. Replaces the weights, which are probabilities, by what dropout makes of them.
  template <Rows kRows, int kD>
  __device__ void differentiate(const StepScores<kRows>& scores, Scores& grad,
                                Tiles<kD>& tiles) const {
    float mean[kRowsEach];
    load(scores, delta, 0, mean);
    const std::uint32_t kept = scores.kept();
    for_each_score([&](int i, int j) {
      const float p = tiles.weight_at(i, j), factor = scores.dropout_factor(kept, i, j);
      grad[i][j] = p * (grad[i][j] * factor - mean[kRows == Rows::queries ? i : j]);
      tiles.weight_at(i, j) = p * factor;
    });
    __syncwarp();  // the warp's weights are written
  }

 private:
  /// Values of the queries that a thread's scores belong to.
  template <Rows kRows>
  static __device__ void load(const StepScores<kRows>& scores, const float* from, float otherwise,
                              float (&values)[kRowsEach]) {
    const AttentionProblem& a = scores.rules.a;
#pragma unroll
    for (int n = 0; n < (kRows == Rows::queries ? kRowsEach : kColumnsEach); ++n) {
      const std::int64_t t = scores.query(n, n);
      values[n] = t < a.T ? from[(scores.owned.b * a.H + scores.h) * a.T + t] : otherwise;
    }
  }
};

// Bound: arithmetic. By ptxas for sm_90, without spills, in float32; shared memory as in the
// forward pass:
//
//     kD                      32     64    128
//     registers of grad_q    168    168    168
//     registers of grad_kv   168    168    255
//
// For sm_80, 2 to 31 numbers do not fit (tools/check_kernels). Not measured on an A100.
//
// REQUIRES: D and Dv are at most kD
template <class T, int kD>
__global__ void __launch_bounds__(kOwners, 3)
    attention_registers_grad_q(ScoreRules<float> rules, BackwardOperands<T> in, Heads<T> grad_q) {
  using Shared = Tiles<kD>;
  RINGRAD_SHARED(Shared, tiles);
  const AttentionProblem& a = rules.a;
  const OwnedRows owned(a.T, a.H, a.causal);
  const std::int64_t b = owned.b, h = owned.h, kv = h / a.group();
  const TileHead<T> q{in.q, b, h}, k{in.k, b, kv}, v{in.v, b, kv}, grad_y{in.grad_output, b, h};
  typename Shared::Sums sums = {};
  const auto [begin, end] = steps_of<Rows::queries>(a, owned);
  for (std::int64_t s0 = begin; s0 < end; s0 += kStep) {
    const StepScores<Rows::queries> scores{rules, owned, h, s0};
    Scores p = {}, grad = {};
    tiles.multiply(p, owned, q, k, s0);
    if (owned.warp_has_rows()) in.set_probabilities(scores, p, tiles);
    tiles.multiply(grad, owned, grad_y, v, s0);
    if (owned.warp_has_rows()) {
      in.differentiate(scores, grad, tiles);
      tiles.set_weights(grad);
    }
    tiles.template add<1>(sums, owned, k, s0);
  }
  const auto scale = [&](int) { return static_cast<float>(a.scale); };
  write_rows<kD>(sums, scale, grad_q, owned, a.D);
}

// Rows of the scores are keys here. Bound: arithmetic. REQUIRES: D and Dv are at most kD
template <class T, int kD>
__global__ void __launch_bounds__(kOwners, kD <= 64 ? 3 : 2)
    attention_registers_grad_kv(ScoreRules<float> rules, BackwardOperands<T> in, Heads<T> grad_k,
                                Heads<T> grad_v) {
  using Shared = Tiles<kD>;
  RINGRAD_SHARED(Shared, tiles);
  const AttentionProblem& a = rules.a;
  const OwnedRows owned(a.S, a.Hkv, false);
  const std::int64_t b = owned.b, kv = owned.h;
  const TileHead<T> k{in.k, b, kv}, v{in.v, b, kv};
  typename Shared::Sums key_sums = {}, value_sums = {};
  const auto [begin, end] = steps_of<Rows::keys>(a, owned);
  const auto group = static_cast<unsigned>(a.group());
  for (unsigned i = 0; i < group; ++i) {
    const std::int64_t h = kv * group + i;
    const TileHead<T> q{in.q, b, h}, grad_y{in.grad_output, b, h};
    for (std::int64_t t0 = begin; t0 < end; t0 += kStep) {
      const StepScores<Rows::keys> scores{rules, owned, h, t0};
      Scores p = {}, grad = {};
      tiles.multiply(p, owned, k, q, t0);
      if (owned.warp_has_rows()) in.set_probabilities(scores, p, tiles);
      tiles.multiply(grad, owned, v, grad_y, t0);
      if (owned.warp_has_rows()) in.differentiate(scores, grad, tiles);
      tiles.template add<1>(value_sums, owned, grad_y, t0, true);
      if (owned.warp_has_rows()) tiles.set_weights(grad);
      tiles.template add<1>(key_sums, owned, q, t0);
    }
  }
  write_rows<kD>(
      key_sums, [&](int) { return static_cast<float>(a.scale); }, grad_k, owned, a.D);
  write_rows<kD>(
      value_sums, [](int) { return 1.f; }, grad_v, owned, a.Dv);
}

}  // namespace

void attention_backward_in_registers(const AttentionBackward& call, const Tensor& delta,
                                     Where where) {
  const AttentionProblem& a = call.a;
  const double scores = static_cast<double>(a.B * a.H * a.T) * static_cast<double>(a.S);
  const Device device = call.q.device();
  dispatch_registers(call.q.dtype(), a, [&]<class T, int kD>() {
    const ScoreRules<float> rules(call);
    const BackwardOperands<T> in{TileSource<T>(call.q),
                                 TileSource<T>(call.k),
                                 TileSource<T>(call.v),
                                 TileSource<T>(call.grad_output),
                                 call.statistics.device_data<float>(),
                                 delta.device_data<float>()};
    if (a.B * a.H * a.T > 0)
      launch_on(device,
                tile_per_block("attention_registers_grad_q", a.B * a.H, a.T,
                               scores * static_cast<double>(2 * a.D + a.Dv)),
                where, attention_registers_grad_q<T, kD>, rules, in, Heads<T>(call.grad_q));
    if (a.B * a.Hkv * a.S > 0)
      launch_on(device,
                tile_per_block("attention_registers_grad_kv", a.B * a.Hkv, a.S,
                               2 * scores * static_cast<double>(a.D + a.Dv)),
                where, attention_registers_grad_kv<T, kD>, rules, in, Heads<T>(call.grad_k),
                Heads<T>(call.grad_v));
  });
}

}  // namespace ringrad::kernels::cuda
