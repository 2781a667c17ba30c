// The gradients on a CPU. A unit of work is a head of keys, or a chunk of its keys where there are
// few heads. It computes each tile of scores once, and adds to all three gradients from it:
//
//     for each head of queries that uses the keys, for each tile of keys, for each tile of queries:
//         P = exp(Q K^T - lse)        G = P * (grad V^T - delta)
//         grad_v += P^T grad          grad_k += G^T Q          grad_q += G K
//
// Chunks of one head each have a part of grad_q, and the parts are added in order. The number of
// chunks depends on the shape only, so the results do not depend on the number of threads.

#include <algorithm>
#include <numbers>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/attention/attention_cpu.h"
#include "ringrad/kernels/attention/attention_scores.h"
#include "ringrad/kernels/attention/attention_tile.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

using namespace attention_tile;

constexpr std::int64_t kKeys = 128;  // of a tile of scores

/// A thread's memory. Widths are those of D and Dv, padded to whole vectors.
template <class M>
class Workspace {
 public:
  Workspace(const AttentionProblem& a, std::int64_t chunk, Device device, Where where)
      : width(round_up(a.D, kLanes<M>)), value_width(round_up(a.Dv, kLanes<M>)) {
    const std::int64_t T = round_up(a.T, kRows), S = std::min(chunk, round_up(a.S, kPanel<M>));
    const std::int64_t scores_size = kQueries * kKeys;
    const std::int64_t sizes[] = {T * width,
                                  T * value_width,
                                  T * width,
                                  T,
                                  T,
                                  T,
                                  S * width,
                                  S * value_width,
                                  kKeys * width,
                                  kKeys * value_width,
                                  kKeys * a.D,
                                  kKeys * a.Dv,
                                  scores_size,
                                  scores_size,
                                  kKeys};
    M** const parts[] = {&queries,     &grad_outputs, &grad_queries, &deltas,      &shifts,
                         &reciprocals, &grad_keys,    &grad_values,  &keys,        &values,
                         &key_panels,  &value_panels, &scores,       &grad_scores, &factors};
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) total += round_up(size, kLanes<M>);
    memory_ = empty({total}, {.dtype = dtype_of<M>, .device = device}, where);
    M* next = memory_.data<M>();
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      *parts[i] = next;
      next += round_up(sizes[i], kLanes<M>);
    }
  }

  std::int64_t width, value_width;
  // Of a head of queries:
  M* queries;       // (T, D), times scale / ln 2
  M* grad_outputs;  // (T, Dv)
  M* grad_queries;  // (T, D), without the factor scale
  M* deltas;        // (T)
  M* shifts;        // (T), and
  M* reciprocals;   // (T), of the forward pass: probabilities are 2^(score - shift) * reciprocal
  // Of the unit:
  M* grad_keys;    // (chunk, D), times scale / ln 2
  M* grad_values;  // (chunk, Dv)
  // Of a tile of keys:
  M* keys;          // (kKeys, D)
  M* values;        // (kKeys, Dv)
  M* key_panels;    // panels (kKeys, D)
  M* value_panels;  // panels (kKeys, Dv)
  // Of a tile of scores:
  M* scores;       // (kQueries, keys)
  M* grad_scores;  // (kQueries, keys)
  M* factors;      // (kKeys), of dropout

 private:
  Tensor memory_;
};

template <class T>
struct QueryHead {
  Matrix<T> q, grad_output, output;
  const MathType<T>* statistics;  // (T, 2)
};

template <class T>
struct KeyHead {
  Matrix<T> k, v;
};

template <class T, class M>
RINGRAD_CLONES void pack_queries(const AttentionProblem& a, const QueryHead<T>& head,
                                 const Workspace<M>& w) {
  const std::int64_t padded = round_up(a.T, kRows);
  pack_rows<M>(head.q, 0, padded, w.width, static_cast<M>(a.scale * std::numbers::log2e),
               w.queries);
  pack_rows<M>(head.grad_output, 0, padded, w.value_width, M{1}, w.grad_outputs);
  std::fill_n(w.grad_queries, padded * w.width, M{0});
  for (std::int64_t t = 0; t < a.T; ++t) {
    const M* grad = w.grad_outputs + t * w.value_width;
    const T* y = head.output.data + t * head.output.row;
    M delta = 0;
#pragma omp simd reduction(+ : delta)
    for (std::int64_t j = 0; j < a.Dv; ++j)
      delta += grad[j] * static_cast<M>(y[j * head.output.column]);
    w.deltas[t] = delta;
    w.shifts[t] = head.statistics[2 * t];
    w.reciprocals[t] = head.statistics[2 * t + 1];
  }
}

template <class T, class M>
RINGRAD_CLONES void pack_keys(const Tile& tile, const KeyHead<T>& head, const Workspace<M>& w) {
  pack_rows<M>(head.k, tile.s0, tile.keys, w.width, M{1}, w.keys);
  pack_panels({w.keys, w.width}, tile.a.D, tile.keys, w.key_panels);
  pack_panels(rows_of(head.v, tile.s0, tile.keys, w.value_width, w.values), tile.a.Dv, tile.keys,
              w.value_panels);
}

// From row i's scores to its probabilities, after dropout, and the gradients of its scores.
template <class M>
RINGRAD_INLINE void differentiate(const Tile& tile, const Mask<M>& mask,
                                  const DropoutFactors<M>* dropout, std::int64_t i,
                                  const Workspace<M>& w) {
  using Vec = Vector<M>;
  using V = typename Vec::type;
  const auto [begin, end] = tile.panels_of_block<M>(i / kRows * kRows);
  const std::int64_t t = tile.t0 + i;
  M *p = w.scores + i * tile.keys, *g = w.grad_scores + i * tile.keys;
  if (i >= tile.queries) {  // pads the last block
    std::fill(p + begin, p + end, M{0});
    std::fill(g + begin, g + end, M{0});
    return;
  }
  if (begin == end) return;
  mask_scores(tile.a, mask, t, tile.s0 + begin, tile.s0 + end, p + begin);
  const M delta = w.deltas[t], shift = w.shifts[t], reciprocal = w.reciprocals[t];
  if (dropout) dropout->draw(tile, t, tile.s0 + begin, tile.s0 + end, w.factors);
  for (std::int64_t j = begin; j < end; j += kLanes<M>) {
    V probability = Vec::at(p + j) - shift;
    probability = probability > 0 ? V{} : probability;
    raise_two<M>(probability);
    probability *= reciprocal;
    V grad = Vec::at(g + j);
    if (dropout) {
      const V factor = Vec::at(w.factors + j - begin);
      grad *= factor;
      Vec::at(p + j) = probability * factor;
    } else {
      Vec::at(p + j) = probability;
    }
    Vec::at(g + j) = probability * (grad - delta);
  }
}

// Adds the contributions of one tile of scores to the three gradients. `chunk` is the first key of
// the unit.
template <class M>
RINGRAD_CLONES void add_tile(const Tile& tile, std::int64_t chunk, const Mask<M>& mask,
                             const DropoutFactors<M>* dropout, const Workspace<M>& w) {
  const M* queries = w.queries + tile.t0 * w.width;
  const M* grad_outputs = w.grad_outputs + tile.t0 * w.value_width;
  multiply_panels(tile, tile.a.D, queries, w.width, w.key_panels, w.scores);
  multiply_panels(tile, tile.a.Dv, grad_outputs, w.value_width, w.value_panels, w.grad_scores);
  for (std::int64_t i = 0; i < round_up(tile.queries, kRows); ++i)
    differentiate(tile, mask, dropout, i, w);
  add_over_queries(tile, w.scores, grad_outputs, w.value_width,
                   w.grad_values + (tile.s0 - chunk) * w.value_width);
  add_over_queries(tile, w.grad_scores, queries, w.width,
                   w.grad_keys + (tile.s0 - chunk) * w.width);
  add_over_keys(tile, w.grad_scores, w.keys, w.width, w.grad_queries + tile.t0 * w.width);
}

template <class T, class M>
RINGRAD_CLONES void write_rows(const M* from, std::int64_t width, std::int64_t first,
                               std::int64_t count, M factor, const Matrix<T>& to) {
  unpack_rows<M>(from, width, first, count, factor, to);
}

template <class M>
RINGRAD_CLONES void add_part(std::int64_t size, const M* part, M* sum) {
  for (std::int64_t i = 0; i < size; ++i) sum[i] += part[i];
}

/// How the keys of each head are divided.
struct Chunks {
  std::int64_t count, size;

  explicit Chunks(const AttentionProblem& a) {
    constexpr std::int64_t kUnits = 16;  // enough for the threads
    const std::int64_t tiles = std::max<std::int64_t>((a.S + kKeys - 1) / kKeys, 1);
    const std::int64_t heads = std::max<std::int64_t>(a.B * a.Hkv, 1);
    const std::int64_t wanted = std::clamp<std::int64_t>((kUnits + heads - 1) / heads, 1, tiles);
    size = (tiles + wanted - 1) / wanted * kKeys;
    count = std::max<std::int64_t>((a.S + size - 1) / size, 1);
  }
};

template <class T>
class Backward {
  using M = MathType<T>;

 public:
  Backward(const AttentionBackward& call, Where where)
      : call_(call), a_(call.a), chunks_(a_), factors_(call.dropout), where_(where) {
    if (chunks_.count > 1)
      parts_ = empty({chunks_.count, a_.B * a_.H, a_.T, a_.D},
                     {.dtype = dtype_of<M>, .device = call.q.device()}, where);
  }

  void run() {
    if (a_.Hkv == 0) return;
    const std::int64_t work = 1 + a_.group() * a_.T * std::min(chunks_.size, a_.S) * (a_.D + a_.Dv);
    parallel_for(a_.B * a_.Hkv * chunks_.count, 1 + 200'000 / work,
                 [&](std::int64_t first, std::int64_t last) {
                   const Workspace<M> w(a_, chunks_.size, call_.q.device(), where_);
                   for (std::int64_t unit = first; unit < last; ++unit) run_unit(unit, w);
                 });
    if (parts_.defined()) add_parts();
  }

 private:
  void run_unit(std::int64_t unit, const Workspace<M>& w) {
    // Early keys have more queries if causal: early and late chunks in turn give equal work.
    const std::int64_t place = unit % chunks_.count, head = unit / chunks_.count;
    const std::int64_t chunk = place % 2 == 0 ? place / 2 : chunks_.count - 1 - place / 2;
    const std::int64_t b = head / a_.Hkv, kv = head % a_.Hkv, begin = chunk * chunks_.size;
    const std::int64_t end = std::min(begin + chunks_.size, round_up(a_.S, kPanel<M>));
    const std::int64_t size = std::max<std::int64_t>(end - begin, 0);
    std::fill_n(w.grad_keys, size * w.width, M{0});
    std::fill_n(w.grad_values, size * w.value_width, M{0});
    const KeyHead<T> keys{{call_.k, b, kv}, {call_.v, b, kv}};
    for (std::int64_t h = kv * a_.group(); h < (kv + 1) * a_.group(); ++h) {
      const QueryHead<T> queries{{call_.q, b, h},
                                 {call_.grad_output, b, h},
                                 {call_.output, b, h},
                                 call_.statistics.data<M>() + 2 * (b * a_.H + h) * a_.T};
      pack_queries(a_, queries, w);
      const Mask<M> mask(call_.mask, b, h);
      for (std::int64_t s0 = begin; s0 < end; s0 += kKeys)
        add_keys(b, h, s0, begin, end, keys, mask, w);
      write_grad_queries(chunk, b, h, w);
    }
    write_rows(w.grad_keys, w.width, begin, size, std::numbers::ln2_v<M>,
               Matrix<T>(call_.grad_k, b, kv));
    write_rows(w.grad_values, w.value_width, begin, size, M{1}, Matrix<T>(call_.grad_v, b, kv));
  }

  void add_keys(std::int64_t b, std::int64_t h, std::int64_t s0, std::int64_t begin,
                std::int64_t end, const KeyHead<T>& keys, const Mask<M>& mask,
                const Workspace<M>& w) {
    Tile tile{a_, b, h, 0, 0, s0, std::min(kKeys, end - s0)};
    pack_keys(tile, keys, w);
    const std::int64_t first = a_.queries_of(s0).begin / kQueries * kQueries;
    const std::int64_t last = a_.queries_of(std::min(s0 + kKeys, a_.S) - 1).end;
    for (tile.t0 = first; tile.t0 < last; tile.t0 += kQueries) {
      tile.queries = std::min(kQueries, a_.T - tile.t0);
      add_tile(tile, begin, mask, call_.dropout.p > 0 ? &factors_ : nullptr, w);
    }
  }

  void write_grad_queries(std::int64_t chunk, std::int64_t b, std::int64_t h,
                          const Workspace<M>& w) {
    const auto scale = static_cast<M>(a_.scale);
    if (!parts_.defined())
      return write_rows(w.grad_queries, w.width, 0, a_.T, scale, Matrix<T>(call_.grad_q, b, h));
    const Matrix<M> part(parts_, chunk, b * a_.H + h);
    write_rows(w.grad_queries, w.width, 0, a_.T, scale, part);
  }

  void add_parts() {
    const std::int64_t size = a_.T * a_.D;
    parallel_for(a_.B * a_.H, 1 + 30'000 / (1 + size * chunks_.count),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t head = first; head < last; ++head) {
                     const Matrix<M> sum(parts_, 0, head);
                     for (std::int64_t chunk = 1; chunk < chunks_.count; ++chunk)
                       add_part(size, Matrix<M>(parts_, chunk, head).data, sum.data);
                     write_rows(sum.data, a_.D, 0, a_.T, M{1},
                                Matrix<T>(call_.grad_q, head / a_.H, head % a_.H));
                   }
                 });
  }

  const AttentionBackward& call_;
  const AttentionProblem& a_;
  Chunks chunks_;
  DropoutFactors<M> factors_;
  Where where_;
  Tensor parts_;  // (chunks, B * H, T, D): grad_q; undefined for one chunk
};

}  // namespace

void attention_backward(const AttentionBackward& given, Where where) {
  AttentionBackward call = given;
  if (goes_by_rows(call.a)) {
    // Rows add the terms of a score in another order than the tiles here. Where scores are large,
    // their statistics would not fit the scores of the tiles.
    const Device device = call.q.device();
    call.output = empty(given.output.shape(), {.dtype = call.q.dtype(), .device = device}, where);
    call.statistics = empty_like(given.statistics, where);
    attention_by_tiles(
        {call.a, call.q, call.k, call.v, call.mask, call.dropout, call.output, call.statistics},
        where);
  }
  dispatch_floating(call.q.dtype(), [&]<class T>() { Backward<T>(call, where).run(); });
}

}  // namespace ringrad::kernels::cpu
