// The forward pass on a CPU: a thread takes tiles of 64 queries, and walks over their keys in tiles
// that stay in the second-level cache. It packs the keys and values of a head once, for all of the
// head's tiles that it has.

#include <algorithm>
#include <limits>
#include <numbers>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/attention/attention_cpu.h"
#include "ringrad/kernels/attention/attention_scores.h"
#include "ringrad/kernels/attention/attention_tile.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

using namespace attention_tile;

constexpr std::int64_t kKeys = 256;  // of a tile of scores

/// A thread's memory.
template <class M>
class Workspace {
 public:
  Workspace(const AttentionProblem& a, Device device, Where where)
      : value_width(round_up(a.Dv, kLanes<M>)), padded_keys(round_up(a.S, kPanel<M>)) {
    const std::int64_t row = round_up(a.D, kLanes<M>);
    const std::int64_t sizes[] = {padded_keys * a.D, padded_keys * value_width,
                                  kPanel<M> * row,   kQueries * a.D,
                                  kQueries * kKeys,  kQueries * value_width,
                                  kQueries,          kQueries * kLanes<M>,
                                  kQueries,          kKeys};
    M** const parts[] = {&keys,    &values, &rows, &queries,     &scores,
                         &outputs, &maxima, &sums, &reciprocals, &factors};
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) total += round_up(size, kLanes<M>);
    memory_ = empty({total + kLanes<M>}, {.dtype = dtype_of<M>, .device = device}, where);
    M* next = memory_.data<M>();
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      *parts[i] = next;
      next += round_up(sizes[i], kLanes<M>);
    }
  }

  std::int64_t value_width, padded_keys;
  M* keys;         // panels (S, D)
  M* values;       // (S, Dv)
  M* rows;         // (kPanel, D), on their way to `keys`
  M* queries;      // (kQueries, D), times scale / ln 2
  M* scores;       // (kQueries, keys of the tile)
  M* outputs;      // (kQueries, Dv), not divided yet
  M* maxima;       // (kQueries)
  M* sums;         // (kQueries, lanes): a row's sum is that of its lanes
  M* reciprocals;  // (kQueries), of the sums
  M* factors;      // (kKeys), of dropout

 private:
  Tensor memory_;
};

template <class T, class M>
RINGRAD_CLONES void pack_head(const Matrix<T>& k, const Matrix<T>& v, const Workspace<M>& w) {
  const std::int64_t width = round_up(k.columns, kLanes<M>);
  for (std::int64_t s = 0; s < w.padded_keys; s += kPanel<M>) {
    pack_panels(rows_of(k, s, kPanel<M>, width, w.rows), k.columns, kPanel<M>,
                w.keys + s * k.columns);
  }
  pack_rows<M>(v, 0, w.padded_keys, w.value_width, M{1}, w.values);
}

// Replaces the scores of row i of the tile by exp(score - m), and updates m, the sum and the row of
// outputs.
template <class M>
RINGRAD_INLINE void exponentiate(const Tile& tile, const Mask<M>& mask,
                                 const DropoutFactors<M>* dropout, std::int64_t i,
                                 const Workspace<M>& w) {
  using Vec = Vector<M>;
  using V = typename Vec::type;
  const auto [begin, end] = tile.panels_of_block<M>(i / kRows * kRows);
  if (begin == end) return;
  M* x = w.scores + i * tile.keys;
  mask_scores(tile.a, mask, tile.t0 + i, tile.s0 + begin, tile.s0 + end, x + begin);

  V largest = Vec::at(x + begin);
  for (std::int64_t j = begin + kLanes<M>; j < end; j += kLanes<M>) {
    const V value = Vec::at(x + j);
    largest = value > largest ? value : largest;
  }
  const M before = w.maxima[i], row = largest_of<M>(largest), now = row > before ? row : before;
  const M shift = shift_of(now);
  V rescales = V{} + (before - shift);
  raise_two<M>(rescales);
  const M rescale = rescales[0];
  w.maxima[i] = now;

  V& sums = Vec::at(w.sums + i * kLanes<M>);
  V sum = sums * rescale;
  for (std::int64_t j = begin; j < end; j += kLanes<M>) {
    V p = Vec::at(x + j) - shift;
    raise_two<M>(p);
    sum += p;
    Vec::at(x + j) = p;
  }
  sums = sum;
  if (dropout) {
    dropout->draw(tile, tile.t0 + i, tile.s0 + begin, tile.s0 + end, w.factors);
    for (std::int64_t j = begin; j < end; ++j) x[j] *= w.factors[j - begin];
  }
  if (rescale != 1) {
    M* y = w.outputs + i * w.value_width;
    for (std::int64_t j = 0; j < w.value_width; j += kLanes<M>) Vec::at(y + j) *= rescale;
  }
}

template <class T, class M>
RINGRAD_CLONES void pack_queries(const AttentionProblem& a, const Matrix<T>& q, std::int64_t t0,
                                 const Workspace<M>& w) {
  pack_rows<M>(q, t0, kQueries, a.D, static_cast<M>(a.scale * std::numbers::log2e), w.queries);
}

// Sums over all keys for the queries of `tile`, which are packed.
template <class M>
RINGRAD_CLONES void attend(Tile tile, const Mask<M>& mask, const DropoutFactors<M>* dropout,
                           const Workspace<M>& w, M* statistics) {
  const AttentionProblem& a = tile.a;
  std::fill_n(w.outputs, kQueries * w.value_width, M{0});
  std::fill_n(w.sums, kQueries * kLanes<M>, M{0});
  std::fill_n(w.maxima, kQueries, -std::numeric_limits<M>::infinity());

  const std::int64_t begin = a.keys_of(tile.t0).begin / kPanel<M> * kPanel<M>;
  const std::int64_t end = round_up(a.keys_of(tile.t0 + tile.queries - 1).end, kPanel<M>);
  for (tile.s0 = begin; tile.s0 < end; tile.s0 += kKeys) {
    tile.keys = std::min(kKeys, end - tile.s0);
    multiply_panels(tile, a.D, w.queries, a.D, w.keys + tile.s0 * a.D, w.scores);
    for (std::int64_t i = 0; i < tile.queries; ++i) exponentiate(tile, mask, dropout, i, w);
    add_over_keys(tile, w.scores, w.values + tile.s0 * w.value_width, w.value_width, w.outputs);
  }

  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const M sum = sum_of<M>(Vector<M>::at(w.sums + i * kLanes<M>));
    w.reciprocals[i] = sum == 0 ? M{0} : 1 / sum;
    statistics[2 * (tile.t0 + i)] = shift_of(w.maxima[i]);
    statistics[2 * (tile.t0 + i) + 1] = w.reciprocals[i];
  }
}

template <class T, class M>
RINGRAD_CLONES void write_outputs(const Tile& tile, const Workspace<M>& w,
                                  const Matrix<T>& output) {
  for (std::int64_t i = 0; i < tile.queries; ++i)
    unpack_rows<M>(w.outputs + i * w.value_width, w.value_width, tile.t0 + i, 1, w.reciprocals[i],
                   output);
}

template <class T>
void run(const AttentionForward& call, Where where) {
  using M = MathType<T>;
  const AttentionProblem& a = call.a;
  const std::int64_t tiles = (a.T + kQueries - 1) / kQueries;
  const std::int64_t work = 1 + kQueries * a.S * (a.D + a.Dv);  // of a tile, in multiplications
  const DropoutFactors<M> factors(call.dropout);
  parallel_for(a.B * a.H * tiles, 1 + 500'000 / work, [&](std::int64_t first, std::int64_t last) {
    const Workspace<M> w(a, call.q.device(), where);
    std::int64_t packed = -1;
    for (std::int64_t unit = first; unit < last; ++unit) {
      const std::int64_t head = unit / tiles, place = unit % tiles;
      const std::int64_t b = head / a.H, h = head % a.H, kv = h / a.group();
      if (packed != b * a.Hkv + kv)
        pack_head<T>(Matrix<T>(call.k, b, kv), Matrix<T>(call.v, b, kv), w);
      packed = b * a.Hkv + kv;
      // If causal, late queries have more keys: early and late tiles in turn give equal work.
      const std::int64_t t0 = (place % 2 == 0 ? place / 2 : tiles - 1 - place / 2) * kQueries;
      const Tile tile{a, b, h, t0, std::min(kQueries, a.T - t0), 0, 0};
      pack_queries(a, Matrix<T>(call.q, b, h), t0, w);
      attend(tile, Mask<M>(call.mask, b, h), call.dropout.p > 0 ? &factors : nullptr, w,
             call.statistics.data<M>() + 2 * head * a.T);
      write_outputs(tile, w, Matrix<T>(call.output, b, h));
    }
  });
}

}  // namespace

void attention(const AttentionForward& call, Where where) {
  goes_by_rows(call.a) ? attention_by_rows(call, where) : attention_by_tiles(call, where);
}

void attention_by_tiles(const AttentionForward& call, Where where) {
  dispatch_floating(call.q.dtype(), [&]<class T>() { run<T>(call, where); });
}

}  // namespace ringrad::kernels::cpu
