// The gradients of attention on tensor cores: formulas in attention.h, the division of work in
// attention_mma.cuh. Both kernels recompute the scores.
//
//     attention_mma_grad_q      a block of threads owns 64 queries, and steps through keys
//     attention_mma_grad_kv     it owns 64 keys, and steps through the queries of each head that
//                               uses them
//
// With one kernel that owns keys, as in the paper, 5 products of tiles would do instead of 7, but
// blocks would add to grad_q by atomics, in an order that varies. Here every sum has one owner.
//
// Paper: Dao 2023, arXiv:2307.08691, section 3.1.2 and algorithm 2

#include "ringrad/kernels/attention/attention_cuda.h"
#include "ringrad/kernels/attention/attention_mma_launch.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <class T>
struct BackwardOperands {
  Heads<const T> q, k, v, grad_output;
  const float *logsumexp, *delta;
};

/// lse and delta of the queries that a lane's scores belong to.
template <Rows kRows, int kBlocks>
struct QueryTerms {
  static constexpr int kCount = kRows == Rows::queries ? 2 : 4 * kBlocks;
  float logsumexp[kCount];  // in powers of two; inf for queries that do not exist
  float delta[kCount];

  /// head: b * H + h. first: the query of the lane's first score.
  template <class T>
  __device__ QueryTerms(const AttentionProblem& a, const BackwardOperands<T>& in, std::int64_t head,
                        std::int64_t first) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const std::int64_t t = first + (kRows == Rows::queries ? 8 * n : n / 2 * 8 + n % 2);
      const bool exists = t < a.T;
      logsumexp[n] = exists ? in.logsumexp[head * a.T + t] * std::numbers::log2e_v<float>
                            : std::numeric_limits<float>::infinity();
      delta[n] = exists ? in.delta[head * a.T + t] : 0;
    }
  }

  /// From scores to probabilities, and from products of grad and v to the gradients of the products
  /// of q and k, without the factor scale.
  __device__ void differentiate(Blocks<kBlocks>& x, Blocks<kBlocks>& grad) const {
    for_each_number<kBlocks>([&](int j, int h, int e, int i, int c) {
      const int n = kRows == Rows::queries ? i : c / 8 * 2 + c % 2;
      const float p = std::exp2(at_most_zero(x[j][h][e] - logsumexp[n]));
      x[j][h][e] = p;
      grad[j][h][e] = p * (grad[j][h][e] - delta[n]);
    });
  }
};

// Bound: arithmetic. By ptxas for sm_90, without spills:
//
//     kD                     32     64     96    128
//     shared memory, bytes  8192  16384  24576  32768
//     registers              124    166    223    240
//
// REQUIRES: rows of all operands as HeadRows says; D and Dv are at most kD
template <class T, int kD>
__global__ void __launch_bounds__(kOwners, kD <= 64 ? 3 : 2)
    attention_mma_grad_q(ScoreRules<float> rules, BackwardOperands<T> in, Heads<T> grad_q) {
  using Steps = KeySteps<T, kD>;
  using Tiles = typename Steps::Tiles;
  RINGRAD_SHARED(Tiles, tiles);
  const AttentionProblem& a = rules.a;
  const OwnedRows owned(a.T, a.H, a.causal);
  const std::int64_t b = owned.b, h = owned.h;
  Steps steps(a, owned, in.k, in.v, tiles);
  Fragment q[kD / 16], grad_y[kD / 16];
  load_rows(q, HeadRows<const T>(in.q, b, h, a.T, a.D), owned.warp_first);
  load_rows(grad_y, HeadRows<const T>(in.grad_output, b, h, a.T, a.Dv), owned.warp_first);
  const QueryTerms<Rows::queries, Steps::kKeys / 16> terms(a, in, b * a.H + h,
                                                           owned.warp_first + threadIdx.x % 32 / 4);
  Blocks<kD / 16> sums = {};
  steps.run([&](std::int64_t s0, const uint4* keys, const uint4* values) {
    const ScorePlace<Rows::queries, Steps::kKeys> place(a, b, h, owned.warp_first, s0);
    if (!place.has_work()) return;  // the whole warp
    Blocks<Steps::kKeys / 16> p = {}, grad = {};
    multiply_rows<T, kD>(
        p, [&](int k) { return q[k]; }, keys);
    multiply_rows<T, kD>(
        grad, [&](int k) { return grad_y[k]; }, values);
    place.finish(rules, p);
    terms.differentiate(p, grad);
    add_rows<T, kD>(sums, grad, keys);
  });
  const auto scale = static_cast<float>(a.scale);
  write_rows(sums, {scale, scale}, HeadRows<T>(grad_q, b, h, a.T, a.D), owned.warp_first);
}

/// Goes through the queries, and the gradients of their outputs, that attend to some of the owned
/// keys, of one head after the other. Copies are ahead by one step, as in KeySteps.
template <class T, int kD>
class QuerySteps {
 public:
  static constexpr int kQueries = kD <= 96 ? 32 : 16;  // of a step; shared memory is at most 48 KiB
  using Tiles = uint4[2][2][kQueries * kD / 8];        // of two steps: queries, grad_output

  __device__ QuerySteps(const AttentionProblem& a, const OwnedRows& owned,
                        const BackwardOperands<T>& in, Tiles& tiles)
      : a_(a),
        in_(in),
        b_(owned.b),
        first_head_(owned.h * a.group()),
        begin_(a.queries_of(owned.first).begin / kQueries * kQueries),
        end_(a.queries_of(owned.last).end),
        tiles_(tiles) {
    start(first_head_, begin_, 0);
  }

  /// body(head, first query, tile of queries, tile of grad_output) for each step. All threads take
  /// part.
  template <class Body>
  __device__ void run(Body body) {
    int stage = 0;
    for (std::int64_t h = first_head_; h < first_head_ + a_.group(); ++h)
      for (std::int64_t t0 = begin_; t0 < end_; t0 += kQueries, stage ^= 1) {
        copies_.wait<0>();
        __syncthreads();  // this step has arrived, and all are done with the one before it
        const bool is_last = t0 + kQueries >= end_;
        start(is_last ? h + 1 : h, is_last ? begin_ : t0 + kQueries, stage ^ 1);
        body(h, t0, tiles_[stage][0], tiles_[stage][1]);
      }
  }

 private:
  __device__ void start(std::int64_t h, std::int64_t t0, int stage) {
    if (h < first_head_ + a_.group() && t0 < end_) {
      const HeadRows<const T> q(in_.q, b_, h, a_.T, a_.D);
      const HeadRows<const T> grad(in_.grad_output, b_, h, a_.T, a_.Dv);
      start_copies<kQueries, kD>(copies_, q, t0, tiles_[stage][0]);
      start_copies<kQueries, kD>(copies_, grad, t0, tiles_[stage][1]);
    }
    copies_.commit();
  }

  const AttentionProblem& a_;
  const BackwardOperands<T>& in_;
  std::int64_t b_, first_head_, begin_, end_;
  Tiles& tiles_;
  AsyncCopies copies_;
};

// Its scores are transposed: rows are keys. Bound: arithmetic. By ptxas for sm_90, without spills:
//
//     kD                      32     64     96    128
//     shared memory, bytes  16384  32768  49152  49152
//     registers               142    198    236    240
//
// REQUIRES: rows of all operands as HeadRows says; D and Dv are at most kD
template <class T, int kD>
__global__ void __launch_bounds__(kOwners, kD <= 32 ? 3 : 2)
    attention_mma_grad_kv(ScoreRules<float> rules, BackwardOperands<T> in, Heads<T> grad_k,
                          Heads<T> grad_v) {
  using Steps = QuerySteps<T, kD>;
  using Tiles = typename Steps::Tiles;
  RINGRAD_SHARED(Tiles, tiles);
  RINGRAD_SHARED(uint4, own, [2][kOwnedRows * kD / 8]);  // keys, values
  const AttentionProblem& a = rules.a;
  const OwnedRows owned(a.S, a.Hkv, false);
  const std::int64_t b = owned.b, kv = owned.h;
  const unsigned warp_row = threadIdx.x / kWarp * 16;
  AsyncCopies copies;
  start_copies<kOwnedRows, kD>(copies, HeadRows<const T>(in.k, b, kv, a.S, a.D), owned.first,
                               own[0]);
  start_copies<kOwnedRows, kD>(copies, HeadRows<const T>(in.v, b, kv, a.S, a.Dv), owned.first,
                               own[1]);
  copies.commit();
  Steps steps(a, owned, in, tiles);
  copies.wait<0>();  // for this thread; the barrier of the first step makes it so for all

  Blocks<kD / 16> key_sums = {}, value_sums = {};
  steps.run([&](std::int64_t h, std::int64_t t0, const uint4* queries, const uint4* grads) {
    const ScorePlace<Rows::keys, Steps::kQueries> place(a, b, h, owned.warp_first, t0);
    if (!place.has_work()) return;  // the whole warp
    const auto block_of = [&](const uint4* tile) {
      return [=](int k) { return load_block<Tile::left_rows, kD>(tile, warp_row, 16 * k); };
    };
    Blocks<Steps::kQueries / 16> p = {}, grad = {};
    multiply_rows<T, kD>(p, block_of(own[0]), queries);
    multiply_rows<T, kD>(grad, block_of(own[1]), grads);
    place.finish(rules, p);
    const QueryTerms<Rows::keys, Steps::kQueries / 16> terms(a, in, b * a.H + h, place.column);
    terms.differentiate(p, grad);
    add_rows<T, kD>(value_sums, p, grads);
    add_rows<T, kD>(key_sums, grad, queries);
  });
  const auto scale = static_cast<float>(a.scale);
  write_rows(key_sums, {scale, scale}, HeadRows<T>(grad_k, b, kv, a.S, a.D), owned.warp_first);
  write_rows(value_sums, {1, 1}, HeadRows<T>(grad_v, b, kv, a.S, a.Dv), owned.warp_first);
}

}  // namespace

void attention_backward_on_tensor_cores(const AttentionBackward& call, const Tensor& delta,
                                        Where where) {
  const AttentionProblem& a = call.a;
  const Tensor q = with_aligned_rows(call.q, where), k = with_aligned_rows(call.k, where),
               v = with_aligned_rows(call.v, where),
               grad_output = with_aligned_rows(call.grad_output, where);
  const double scores = static_cast<double>(a.B * a.H * a.T) * static_cast<double>(a.S);
  const Device device = call.q.device();
  dispatch_heads(call.q.dtype(), a, [&]<class T, int kD>() {
    const ScoreRules<float> rules(call);
    const BackwardOperands<T> in{Heads<const T>(q),
                                 Heads<const T>(k),
                                 Heads<const T>(v),
                                 Heads<const T>(grad_output),
                                 call.statistics.device_data<float>(),
                                 delta.device_data<float>()};
    if (a.B * a.H * a.T > 0)
      launch_on(device,
                tile_per_block("attention_mma_grad_q", a.B * a.H, a.T,
                               scores * static_cast<double>(2 * a.D + a.Dv)),
                where, attention_mma_grad_q<T, kD>, rules, in, Heads<T>(call.grad_q));
    if (a.B * a.Hkv * a.S > 0)
      launch_on(device,
                tile_per_block("attention_mma_grad_kv", a.B * a.Hkv, a.S,
                               2 * scores * static_cast<double>(a.D + a.Dv)),
                where, attention_mma_grad_kv<T, kD>, rules, in, Heads<T>(call.grad_k),
                Heads<T>(call.grad_v));
  });
}

}  // namespace ringrad::kernels::cuda
