// The transforms of winograd.h: one-dimensional rules on 16 channels at a time, and a function that
// applies a rule to the columns, then the rows, of a tile.
//
// With the six points 0, 1, -1, 2, -2 and infinity, and t = 1 / product of a point's distances to
// the other finite points:
//
//     filter    value of the filter's polynomial at each point, times t:
//               1/4 at 0,  -1/6 at 1 and -1,  1/24 at 2 and -2,  the last tap at infinity
//     output    powers 0, 1, 2, .. of the points, summed; infinity counts only for the last output
//     input     the remaining factor: the coefficients of the products of (z - point) over the
//               other points
//
// Points come in pairs +-p, so each rule shares the even and the odd part of its pair.

#pragma once

#include "ringrad/kernels/register_tile.h"

namespace ringrad::kernels::winograd {

using Channels = Vector<float>::type;  // 16 channels of one pixel

/// B' d: from six inputs to six places.
struct InputRule {
  static constexpr int kFrom = 6, kTo = 6;
  [[gnu::always_inline]] static inline void apply(const Channels* d, Channels* to) {
    const Channels even1 = d[4] - 4.f * d[2], odd1 = d[3] - 4.f * d[1];
    const Channels even2 = d[4] - d[2], odd2 = 2.f * (d[3] - d[1]);
    to[0] = 4.f * d[0] - 5.f * d[2] + d[4];
    to[1] = even1 + odd1;
    to[2] = even1 - odd1;
    to[3] = even2 + odd2;
    to[4] = even2 - odd2;
    to[5] = 4.f * d[1] - 5.f * d[3] + d[5];
  }
};

/// G g for a filter of kTaps = 3 or 4 taps.
template <int kTaps>
struct FilterRule {
  static constexpr int kFrom = kTaps, kTo = 6;
  [[gnu::always_inline]] static inline void apply(const Channels* g, Channels* to) {
    const Channels even1 = g[0] + g[2], even2 = g[0] + 4.f * g[2];
    Channels odd1 = g[1], odd2 = 2.f * g[1];
    if constexpr (kTaps == 4) {
      odd1 += g[3];
      odd2 += 8.f * g[3];
    }
    to[0] = (1.f / 4) * g[0];
    to[1] = (-1.f / 6) * (even1 + odd1);
    to[2] = (-1.f / 6) * (even1 - odd1);
    to[3] = (1.f / 24) * (even2 + odd2);
    to[4] = (1.f / 24) * (even2 - odd2);
    to[5] = g[kTaps - 1];
  }
};

/// A' m: from six places to kOutputs = 3 or 4 outputs.
template <int kOutputs>
struct OutputRule {
  static constexpr int kFrom = 6, kTo = kOutputs;
  [[gnu::always_inline]] static inline void apply(const Channels* m, Channels* to) {
    const Channels sum1 = m[1] + m[2], difference1 = m[1] - m[2];
    const Channels sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    to[0] = m[0] + sum1 + sum2;
    to[1] = difference1 + 2.f * difference2;
    to[2] = sum1 + 4.f * sum2;
    if constexpr (kOutputs == 4) to[3] = difference1 + 8.f * difference2;
    to[kOutputs - 1] += m[5];
  }
};

/// The tile Rule (..) Rule': load(i, j, value) reads a kFrom x kFrom tile, and row(i, values)
/// receives one of kTo rows of kTo values.
template <class Rule, class Load, class Row>
[[gnu::always_inline]] inline void transform_tile(Load load, Row row) {
  Channels halfway[Rule::kTo][Rule::kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < Rule::kFrom; ++j) {
    Channels from[Rule::kFrom], to[Rule::kTo];
#pragma GCC unroll 6
    for (int i = 0; i < Rule::kFrom; ++i) load(i, j, from[i]);
    Rule::apply(from, to);
#pragma GCC unroll 6
    for (int i = 0; i < Rule::kTo; ++i) halfway[i][j] = to[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Rule::kTo; ++i) {
    Channels to[Rule::kTo];
    Rule::apply(halfway[i], to);
    row(i, to);
  }
}

}  // namespace ringrad::kernels::winograd
