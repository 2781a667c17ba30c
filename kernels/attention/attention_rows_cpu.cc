// The forward pass for few queries, as in generation with kept keys: each query is multiplied with
// the keys and the values where they lie. A pass over the keys gives all scores of the row; 16 keys
// at a time have one vector of partial sums each, which are summed together.

#include <algorithm>
#include <limits>
#include <numbers>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/attention/attention_cpu.h"
#include "ringrad/kernels/attention/attention_scores.h"
#include "ringrad/kernels/attention/attention_tile.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/vector_lanes.h"

namespace ringrad::kernels::cpu {
namespace {

using namespace attention_tile;

/// The elements of a row from column j on, fewer than kLanes; zeros beyond its end.
template <class T, class M = MathType<T>>
RINGRAD_INLINE void load_rest(const T* row, std::int64_t j, std::int64_t columns,
                              typename Vector<M>::type& v) {
  M values[kLanes<M>] = {};
  const std::int64_t count = std::min(columns - j, kLanes<M>);
  for (std::int64_t lane = 0; lane < count; ++lane) values[lane] = static_cast<M>(row[j + lane]);
  v = Vector<M>::at(values);
}

// x[i] = query . row first + i of k, for kLanes rows; those from `end` on repeat the last one.
template <class T, class M>
RINGRAD_INLINE void multiply_keys(const M* query, const Matrix<T>& k, std::int64_t first,
                                  std::int64_t end, M* x) {
  using V = typename Vector<M>::type;
  V sums[Vector<M>::kLanes] = {};
  const T* rows[Vector<M>::kLanes];
  for (std::int64_t i = 0; i < kLanes<M>; ++i)
    rows[i] = k.data + std::min(first + i, end - 1) * k.row;
  std::int64_t j = 0;
  for (; j + kLanes<M> <= k.columns; j += kLanes<M>) {
    const V left = Vector<M>::at(query + j);
#pragma GCC unroll 16
    for (int i = 0; i < Vector<M>::kLanes; ++i) {
      V right;
      load_vector(rows[i] + j, right);
      sums[i] += left * right;
    }
  }
  if (j < k.columns)
    for (int i = 0; i < Vector<M>::kLanes; ++i) {
      V right;
      load_rest(rows[i], j, k.columns, right);
      sums[i] += Vector<M>::at(query + j) * right;
    }
  sum_each<M>(sums);
  Vector<M>::at(x) = sums[0];
}

// y = sum over s of p[s] * row s of v, for kVectors vectors of columns. Even and odd keys have sums
// of their own, since an addition must wait for the one before it.
template <int kVectors, class T, class M>
RINGRAD_INLINE void multiply_values(const M* p, const T* v, std::int64_t row, std::int64_t count,
                                    M* y) {
  using V = typename Vector<M>::type;
  V sums[2][kVectors] = {};
  const auto add = [&](std::int64_t s, V(&sum)[kVectors]) {
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      V value;
      load_vector(v + s * row + i * kLanes<M>, value);
      sum[i] += p[s] * value;
    }
  };
  std::int64_t s = 0;
  for (; s + 2 <= count; s += 2) {
    add(s, sums[0]);
    add(s + 1, sums[1]);
  }
  if (s < count) add(s, sums[0]);
  for (int i = 0; i < kVectors; ++i) Vector<M>::at(y + i * kLanes<M>) = sums[0][i] + sums[1][i];
}

// The same for the columns from j on, fewer than kLanes.
template <class T, class M>
RINGRAD_INLINE void multiply_rest(const M* p, const Matrix<T>& v, std::int64_t first,
                                  std::int64_t count, std::int64_t j, M* y) {
  typename Vector<M>::type sum{};
  for (std::int64_t s = 0; s < count; ++s) {
    typename Vector<M>::type value;
    load_rest(v.data + (first + s) * v.row, j, v.columns, value);
    sum += p[s] * value;
  }
  Vector<M>::at(y) = sum;
}

/// A thread's memory.
template <class M>
struct Workspace {
  Workspace(const AttentionProblem& a, Device device, Where where) {
    const std::int64_t D = round_up(a.D, kLanes<M>), Dv = round_up(a.Dv, kLanes<M>);
    const std::int64_t S = round_up(a.S, kLanes<M>);
    memory = empty({D + Dv + 2 * S}, {.dtype = dtype_of<M>, .device = device}, where);
    query = memory.data<M>();
    output = query + D;
    scores = output + Dv;
    factors = scores + S;
  }

  Tensor memory;
  M *query, *output, *scores, *factors;
};

template <class T, class M>
RINGRAD_CLONES void attend_row(const Tile& row, const Matrix<T>& q, const Matrix<T>& k,
                               const Matrix<T>& v, const Mask<M>& mask,
                               const DropoutFactors<M>* dropout, const Workspace<M>& w,
                               const Matrix<T>& output, M* statistics) {
  using V = typename Vector<M>::type;
  constexpr M kInfinity = std::numeric_limits<M>::infinity();
  const AttentionProblem& a = row.a;
  pack_rows<M>(q, row.t0, 1, round_up(a.D, kLanes<M>),
               static_cast<M>(a.scale * std::numbers::log2e), w.query);
  const auto [begin, end] = a.keys_of(row.t0);
  const std::int64_t count = end - begin, padded = round_up(count, kLanes<M>);
  for (std::int64_t s = 0; s < padded; s += kLanes<M>)
    multiply_keys(w.query, k, begin + s, end, w.scores + s);
  mask_scores(a, mask, row.t0, begin, begin + padded, w.scores);

  V largest = V{} - kInfinity;
  for (std::int64_t s = 0; s < padded; s += kLanes<M>) {
    const V x = Vector<M>::at(w.scores + s);
    largest = x > largest ? x : largest;
  }
  const M shift = shift_of(largest_of<M>(largest));
  V sums{};
  for (std::int64_t s = 0; s < padded; s += kLanes<M>) {
    V p = Vector<M>::at(w.scores + s) - shift;
    raise_two<M>(p);
    sums += p;
    Vector<M>::at(w.scores + s) = p;
  }
  if (dropout) {
    dropout->draw(row, row.t0, begin, end, w.factors);
    for (std::int64_t s = 0; s < count; ++s) w.scores[s] *= w.factors[s];
  }

  const T* values = v.data + begin * v.row;
  std::int64_t j = 0;
  for (; j + 4 * kLanes<M> <= a.Dv; j += 4 * kLanes<M>)
    multiply_values<4>(w.scores, values + j, v.row, count, w.output + j);
  for (; j + kLanes<M> <= a.Dv; j += kLanes<M>)
    multiply_values<1>(w.scores, values + j, v.row, count, w.output + j);
  if (j < a.Dv) multiply_rest(w.scores, v, begin, count, j, w.output + j);
  const M sum = sum_of<M>(sums);
  const M reciprocal = sum == 0 ? M{0} : 1 / sum;
  unpack_rows<M>(w.output, 0, row.t0, 1, reciprocal, output);
  statistics[2 * row.t0] = shift;
  statistics[2 * row.t0 + 1] = reciprocal;
}

template <class T>
void run(const AttentionForward& call, Where where) {
  using M = MathType<T>;
  const AttentionProblem& a = call.a;
  const DropoutFactors<M> factors(call.dropout);
  const std::int64_t work = 1 + a.S * (a.D + a.Dv);
  parallel_for(a.B * a.H * a.T, 1 + 50'000 / work, [&](std::int64_t first, std::int64_t last) {
    const Workspace<M> w(a, call.q.device(), where);
    for (std::int64_t unit = first; unit < last; ++unit) {
      const std::int64_t head = unit / a.T, b = head / a.H, h = head % a.H, kv = h / a.group();
      attend_row(Tile{a, b, h, unit % a.T, 1, 0, 0}, Matrix<T>(call.q, b, h),
                 Matrix<T>(call.k, b, kv), Matrix<T>(call.v, b, kv), Mask<M>(call.mask, b, h),
                 call.dropout.p > 0 ? &factors : nullptr, w, Matrix<T>(call.output, b, h),
                 call.statistics.data<M>() + 2 * head * a.T);
    }
  });
}

}  // namespace

void attention_by_rows(const AttentionForward& call, Where where) {
  const auto with_whole_rows = [&](const Tensor& x) {  // the form of the sums, whatever the strides
    return x.strides()[3] == 1 ? x : contiguous(x, where);
  };
  AttentionForward whole = call;
  whole.k = with_whole_rows(call.k);
  whole.v = with_whole_rows(call.v);
  dispatch_floating(call.q.dtype(), [&]<class T>() { run<T>(whole, where); });
}

}  // namespace ringrad::kernels::cpu
