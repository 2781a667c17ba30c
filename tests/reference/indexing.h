// Selecting and scattering, in double, on arrays of three axes: (outer, the one indexed, inner).

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringrad::reference {

using Numbers = std::vector<double>;
using Indices = std::vector<std::int64_t>;

/// Extents of an array (outer, axis, inner), and the place of one element in row-major order.
struct Extents {
  std::int64_t outer, axis, inner;

  std::size_t numel() const { return static_cast<std::size_t>(outer * axis * inner); }
  std::size_t at(std::int64_t o, std::int64_t a, std::int64_t i) const {
    return static_cast<std::size_t>((o * axis + a) * inner + i);
  }
};

/// y[o, a, i] = x[o, indices[a], i]
inline Numbers index_select(const Numbers& x, const Extents& from, const Indices& indices) {
  const Extents to{from.outer, static_cast<std::int64_t>(indices.size()), from.inner};
  Numbers y(to.numel());
  for (std::int64_t o = 0; o < to.outer; ++o)
    for (std::int64_t a = 0; a < to.axis; ++a)
      for (std::int64_t i = 0; i < to.inner; ++i)
        y[to.at(o, a, i)] = x[from.at(o, indices[static_cast<std::size_t>(a)], i)];
  return y;
}

/// y[o, indices[a], i] += x[o, a, i], starting from zeros
inline Numbers index_sum(const Numbers& x, const Extents& to, const Indices& indices) {
  const Extents from{to.outer, static_cast<std::int64_t>(indices.size()), to.inner};
  Numbers y(to.numel(), 0);
  for (std::int64_t o = 0; o < from.outer; ++o)
    for (std::int64_t a = 0; a < from.axis; ++a)
      for (std::int64_t i = 0; i < from.inner; ++i)
        y[to.at(o, indices[static_cast<std::size_t>(a)], i)] += x[from.at(o, a, i)];
  return y;
}

/// y[o, a, i] = x[o, index[o, a, i], i] for the elements of index, which may be smaller than x
inline Numbers gather(const Numbers& x, const Extents& from, const Indices& index,
                      const Extents& to) {
  Numbers y(to.numel());
  for (std::int64_t o = 0; o < to.outer; ++o)
    for (std::int64_t a = 0; a < to.axis; ++a)
      for (std::int64_t i = 0; i < to.inner; ++i)
        y[to.at(o, a, i)] = x[from.at(o, index[to.at(o, a, i)], i)];
  return y;
}

/// x[o, index[o, a, i], i] += src[o, a, i] for the elements of index, which may be smaller than src
inline Numbers scatter_add(Numbers x, const Extents& to, const Indices& index,
                           const Extents& covered, const Numbers& src, const Extents& from) {
  for (std::int64_t o = 0; o < covered.outer; ++o)
    for (std::int64_t a = 0; a < covered.axis; ++a)
      for (std::int64_t i = 0; i < covered.inner; ++i)
        x[to.at(o, index[covered.at(o, a, i)], i)] += src[from.at(o, a, i)];
  return x;
}

}  // namespace ringrad::reference
