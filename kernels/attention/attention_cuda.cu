// Attention on a GPU. The ladder:
//
//     a warp per row    any floats, options and strides; needs no shared memory: the kernels below
//     registers         attention_registers_*_cuda.cu; removes the loads by single elements: each
//                       key that is loaded serves 64 queries. For all floats but float64, in heads
//                       of at most 128 columns
//     tensor cores      attention_mma_*_cuda.cu; removes the limit of float32 arithmetic. For
//                       16-bit floats in heads of 8, 16, ... or 128 columns, without dropout
//     cuDNN             for some of these, 2.5 times as fast on an H200 (kernels/library/backend.h)
//
// A warp per row:
//
//     attention_warp_per_query            y and lse
//     attention_delta_warp_per_query      delta = grad . y
//     attention_grad_warp_per_query       grad_q
//     attention_grad_warp_per_key         grad_k and grad_v
//
// The warp takes 32 columns of its row of scores at a time: each lane computes one score. Then the
// lanes divide the columns of the sums among them, kColumns at a time, and each lane's score goes
// to all of them in turn. Sums are added in the order of keys, or of heads and queries.

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/attention/attention_cuda.h"
#include "ringrad/kernels/attention/attention_scores.cuh"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/kernels/library/shared_gpu.h"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPerLane = 4;  // sums in a lane's registers
constexpr int kColumns = kPerLane * int{kWarp};

struct Maximum {
  template <class Math>
  __device__ Math operator()(Math a, Math b) const {
    return b > a ? b : a;
  }
};

/// A warp's place: which row, and which lane this thread is.
struct Place {
  std::int64_t row;
  unsigned lane;

  __device__ Place()
      : row((std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp),
        lane(threadIdx.x % kWarp) {}
};

/// sums[i] += factor * row[column of i], for this lane's columns from `first` on.
template <class Math, class T>
__device__ void add_row(Math factor, const T* row, std::int64_t step, std::int64_t first,
                        std::int64_t size, Math (&sums)[kPerLane]) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const std::int64_t d = first + i * std::int64_t{kWarp};
    if (d < size) sums[i] += factor * static_cast<Math>(row[d * step]);
  }
}

template <class T, class Math>
__device__ void write_row(const Math (&sums)[kPerLane], Math factor, T* row, std::int64_t step,
                          std::int64_t first, std::int64_t size) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const std::int64_t d = first + i * std::int64_t{kWarp};
    if (d < size) row[d * step] = T(sums[i] * factor);
  }
}

// Bound: arithmetic, and the loads of keys by single elements.
template <class T>
__global__ void attention_warp_per_query(ScoreRules<MathType<T>> rules, Heads<const T> queries,
                                         Heads<const T> keys, Heads<const T> values,
                                         Heads<T> output, MathType<T>* logsumexp) {
  using Math = MathType<T>;
  constexpr Math kInfinity = std::numeric_limits<Math>::infinity();
  const AttentionProblem& a = rules.a;
  const Place place;
  if (place.row >= a.B * a.H * a.T) return;
  const std::int64_t b = place.row / (a.H * a.T), h = place.row / a.T % a.H, t = place.row % a.T;
  const std::int64_t kv = h / a.group();
  const T* q = queries.find(b, h, t);
  const auto [begin, end] = a.keys_of(t);
  for (std::int64_t first = 0; first == 0 || first < a.Dv; first += kColumns) {
    Math maximum = -kInfinity, sum = 0, y[kPerLane] = {};  // sum: of this lane's keys
    for (std::int64_t s0 = begin; s0 < end; s0 += kWarp) {
      const std::int64_t s = s0 + place.lane;
      Math x = -kInfinity;
      if (s < end)
        x = rules.score(dot<Math>(q, queries.column, keys.find(b, kv, s), keys.column, a.D), b, h,
                        t, s);
      const Math now = warp_reduce(Maximum()(maximum, x), Maximum());
      const Math shift = now == -kInfinity ? Math{0} : now;
      const Math rescale = std::exp(maximum - shift);
      maximum = now;
      Math p = std::exp(x - shift);
      sum = sum * rescale + p;
      if (s < end) p *= rules.dropout_factor(b, h, t, s);
#pragma unroll
      for (Math& value : y) value *= rescale;
      const int count = static_cast<int>(end - s0 < kWarp ? end - s0 : kWarp);
      for (int j = 0; j < count; ++j)
        add_row(__shfl_sync(kAllLanes, p, j), values.find(b, kv, s0 + j), values.column,
                first + place.lane, a.Dv, y);
    }
    sum = warp_reduce(sum, Plus());
    write_row(y, sum == 0 ? Math{0} : 1 / sum, output.find(b, h, t), output.column,
              first + place.lane, a.Dv);
    if (first == 0 && place.lane == 0)
      logsumexp[place.row] = sum == 0 ? kInfinity : maximum + std::log(sum);
  }
}

// Bound: bandwidth.
template <class T>
__global__ void attention_delta_warp_per_query(AttentionProblem a, Heads<const T> grad_output,
                                               Heads<const T> output, MathType<T>* delta) {
  using Math = MathType<T>;
  const Place place;
  if (place.row >= a.B * a.H * a.T) return;
  const std::int64_t b = place.row / (a.H * a.T), h = place.row / a.T % a.H, t = place.row % a.T;
  const T *grad = grad_output.find(b, h, t), *y = output.find(b, h, t);
  Math sum = 0;
  for (std::int64_t d = place.lane; d < a.Dv; d += kWarp)
    sum +=
        static_cast<Math>(grad[d * grad_output.column]) * static_cast<Math>(y[d * output.column]);
  sum = warp_reduce(sum, Plus());
  if (place.lane == 0) delta[place.row] = sum;
}

/// The operands of the gradient's kernels.
template <class T>
struct BackwardOperands {
  Heads<const T> q, k, v, grad_output;
  const MathType<T>*logsumexp, *delta;

  struct Terms {
    MathType<T> probability, grad;  // after dropout; of the product of query and key
  };

  __device__ Terms terms(const ScoreRules<MathType<T>>& rules, std::int64_t b, std::int64_t h,
                         std::int64_t kv, std::int64_t t, std::int64_t s) const {
    using Math = MathType<T>;
    const AttentionProblem& a = rules.a;
    const std::int64_t row = (b * a.H + h) * a.T + t;
    const Math product = dot<Math>(q.find(b, h, t), q.column, k.find(b, kv, s), k.column, a.D);
    const Math grad_p =
        dot<Math>(grad_output.find(b, h, t), grad_output.column, v.find(b, kv, s), v.column, a.Dv);
    const Math p = std::exp(at_most_zero(rules.score(product, b, h, t, s) - logsumexp[row]));
    const Math factor = rules.dropout_factor(b, h, t, s);
    return {p * factor, p * (grad_p * factor - delta[row]) * static_cast<Math>(a.scale)};
  }
};

// Bound: arithmetic, and loads by single elements, as in the forward pass.
template <class T>
__global__ void attention_grad_warp_per_query(ScoreRules<MathType<T>> rules, BackwardOperands<T> in,
                                              Heads<T> grad_q) {
  using Math = MathType<T>;
  const AttentionProblem& a = rules.a;
  const Place place;
  if (place.row >= a.B * a.H * a.T) return;
  const std::int64_t b = place.row / (a.H * a.T), h = place.row / a.T % a.H, t = place.row % a.T;
  const std::int64_t kv = h / a.group();
  const auto [begin, end] = a.keys_of(t);
  for (std::int64_t first = 0; first < a.D; first += kColumns) {
    Math sums[kPerLane] = {};
    for (std::int64_t s0 = begin; s0 < end; s0 += kWarp) {
      const std::int64_t s = s0 + place.lane;
      const Math grad = s < end ? in.terms(rules, b, h, kv, t, s).grad : Math{0};
      const int count = static_cast<int>(end - s0 < kWarp ? end - s0 : kWarp);
      for (int j = 0; j < count; ++j)
        add_row(__shfl_sync(kAllLanes, grad, j), in.k.find(b, kv, s0 + j), in.k.column,
                first + place.lane, a.D, sums);
    }
    write_row(sums, Math{1}, grad_q.find(b, h, t), grad_q.column, first + place.lane, a.D);
  }
}

// The same for a key: the lanes of its warp take 32 queries at a time, of one head after the other.
template <class T>
__global__ void attention_grad_warp_per_key(ScoreRules<MathType<T>> rules, BackwardOperands<T> in,
                                            Heads<T> grad_k, Heads<T> grad_v) {
  using Math = MathType<T>;
  const AttentionProblem& a = rules.a;
  const Place place;
  if (place.row >= a.B * a.Hkv * a.S) return;
  const std::int64_t b = place.row / (a.Hkv * a.S), kv = place.row / a.S % a.Hkv;
  const std::int64_t s = place.row % a.S, columns = a.D > a.Dv ? a.D : a.Dv;
  const auto [begin, end] = a.queries_of(s);
  for (std::int64_t first = 0; first < columns; first += kColumns) {
    Math key_sums[kPerLane] = {}, value_sums[kPerLane] = {};
    for (std::int64_t h = kv * a.group(); h < (kv + 1) * a.group(); ++h)
      for (std::int64_t t0 = begin; t0 < end; t0 += kWarp) {
        const std::int64_t t = t0 + place.lane;
        typename BackwardOperands<T>::Terms terms{0, 0};
        if (t < end) terms = in.terms(rules, b, h, kv, t, s);
        const int count = static_cast<int>(end - t0 < kWarp ? end - t0 : kWarp);
        for (int j = 0; j < count; ++j) {
          const Math p = __shfl_sync(kAllLanes, terms.probability, j);
          const Math grad = __shfl_sync(kAllLanes, terms.grad, j);
          add_row(grad, in.q.find(b, h, t0 + j), in.q.column, first + place.lane, a.D, key_sums);
          add_row(p, in.grad_output.find(b, h, t0 + j), in.grad_output.column, first + place.lane,
                  a.Dv, value_sums);
        }
      }
    write_row(key_sums, Math{1}, grad_k.find(b, kv, s), grad_k.column, first + place.lane, a.D);
    write_row(value_sums, Math{1}, grad_v.find(b, kv, s), grad_v.column, first + place.lane, a.Dv);
  }
}

// -- Host -----------------------------------------------------------------------------------------

/// One warp per row; `products` per score, each of `size` multiplications.
LaunchConfig warp_per_row(const char* name, std::int64_t rows, double multiplications) {
  return {.name = name,
          .grid = num_blocks(rows * kWarp, kThreads),
          .block = kThreads,
          .flops = 2 * multiplications};
}

bool may_use_cudnn(Device device, Where where) {
  return may_use_vendor(Provided::attention, is_shared(device)) &&
         uses_vendor(Provided::attention, where);
}

}  // namespace

void attention(const AttentionForward& call, Where where) {
  const AttentionProblem& a = call.a;
  const std::int64_t rows = a.B * a.H * a.T;
  if (rows == 0) return;
  if (may_use_cudnn(call.q.device(), where) && vendor::attention(call, where)) return;
  if (fits_tensor_cores(a, call.q.dtype(), call.dropout))
    return attention_on_tensor_cores(call, where);
  if (fits_registers(a, call.q.dtype())) return attention_in_registers(call, where);
  const double scores = static_cast<double>(rows) * static_cast<double>(a.S);
  dispatch_floating(call.q.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    launch_on(call.q.device(),
              warp_per_row("attention", rows, scores * static_cast<double>(a.D + a.Dv)), where,
              attention_warp_per_query<T>, ScoreRules<Math>(call), Heads<const T>(call.q),
              Heads<const T>(call.k), Heads<const T>(call.v), Heads<T>(call.output),
              call.statistics.device_data<Math>());
  });
}

void attention_backward(const AttentionBackward& call, Where where) {
  const AttentionProblem& a = call.a;
  const std::int64_t queries = a.B * a.H * a.T, keys = a.B * a.Hkv * a.S;
  const double scores = static_cast<double>(queries) * static_cast<double>(a.S);
  const Device device = call.q.device();
  if (may_use_cudnn(device, where) && vendor::attention_backward(call, where)) return;
  dispatch_floating(call.q.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const Tensor delta = empty({a.B, a.H, a.T}, {.dtype = dtype_of<Math>, .device = device}, where);
    const ScoreRules<Math> rules(call);
    const BackwardOperands<T> in{Heads<const T>(call.q),
                                 Heads<const T>(call.k),
                                 Heads<const T>(call.v),
                                 Heads<const T>(call.grad_output),
                                 call.statistics.device_data<Math>(),
                                 delta.device_data<Math>()};
    if (queries > 0)
      launch_on(device, warp_per_row("attention_delta", queries, 0), where,
                attention_delta_warp_per_query<T>, a, in.grad_output, Heads<const T>(call.output),
                delta.device_data<Math>());
    if (fits_tensor_cores(a, call.q.dtype(), call.dropout))
      return attention_backward_on_tensor_cores(call, delta, where);
    if (fits_registers(a, call.q.dtype()))
      return attention_backward_in_registers(call, delta, where);
    if (queries > 0)
      launch_on(
          device,
          warp_per_row("attention_grad_q", queries, scores * static_cast<double>(2 * a.D + a.Dv)),
          where, attention_grad_warp_per_query<T>, rules, in, Heads<T>(call.grad_q));
    if (keys > 0)
      launch_on(
          device,
          warp_per_row("attention_grad_kv", keys, 2 * scores * static_cast<double>(a.D + a.Dv)),
          where, attention_grad_warp_per_key<T>, rules, in, Heads<T>(call.grad_k),
          Heads<T>(call.grad_v));
  });
}

}  // namespace ringrad::kernels::cuda
