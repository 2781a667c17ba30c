#include <algorithm>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/reduce/argmax.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kElementsPerThread = 16 << 10;
constexpr std::int64_t kColumns = 512;  // this many best elements stay in the first-level cache

// Which of two numbers is better. Only a better number replaces the best so far, so that the first
// of equal numbers wins.
struct Larger {
  template <class T>
  static bool better(T a, T b) {
    return a > b;
  }
  template <class T>
  static bool no_better(T a, T b) {
    return a <= b;
  }
};

struct Smaller {
  template <class T>
  static bool better(T a, T b) {
    return a < b;
  }
  template <class T>
  static bool no_better(T a, T b) {
    return a >= b;
  }
};

template <class T>
bool is_nan(T x) {
  return x != x;
}

// The position of the best element of a row, or of its first NaN. Blocks without a better element,
// most blocks of a long row, are skipped as a whole.
template <class Order, class T>
RINGRAD_CLONES std::int64_t search_row(const T* x, std::int64_t n) {
  constexpr std::int64_t kBlock = 64;
  MathType<T> best = x[0];
  std::int64_t position = 0;
  if (is_nan(best)) return 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    if (end - begin == kBlock) {
      int found = 0;
      for (std::int64_t i = begin; i < begin + kBlock; ++i)
        found |= !Order::template no_better<MathType<T>>(x[i], best);
      if (!found) continue;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      const MathType<T> candidate = x[i];
      if (Order::no_better(candidate, best)) continue;
      if (is_nan(candidate)) return i;
      best = candidate;
      position = i;
    }
  }
  return position;
}

// The positions of the best elements of `columns` neighbouring columns.
// REQUIRES: columns <= kColumns
template <class Order, class T>
RINGRAD_CLONES void search_columns(const T* __restrict x, std::int64_t extent, std::int64_t stride,
                                   std::int64_t columns, std::int64_t* __restrict position) {
  MathType<T> best[kColumns];
  for (std::int64_t c = 0; c < columns; ++c) {
    best[c] = x[c];
    position[c] = 0;
  }
  for (std::int64_t i = 1; i < extent; ++i) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const MathType<T> candidate = x[i * stride + c];
      const bool replaces =
          Order::better(candidate, best[c]) | (is_nan(candidate) & !is_nan(best[c]));
      best[c] = replaces ? candidate : best[c];
      position[c] = replaces ? i : position[c];
    }
  }
}

template <class Order, class T>
void search(const T* x, const Positions& p, std::int64_t* result) {
  const std::int64_t tiles = (p.inner + kColumns - 1) / kColumns;
  const std::int64_t per_unit = p.extent * std::min(p.inner, kColumns);
  const std::int64_t grain = (kElementsPerThread + per_unit - 1) / per_unit;
  parallel_for(p.outer * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      if (p.inner == 1) {
        result[unit] = search_row<Order>(x + unit * p.extent, p.extent);
        continue;
      }
      const std::int64_t outer = unit / tiles, column = unit % tiles * kColumns;
      search_columns<Order>(x + outer * p.extent * p.inner + column, p.extent, p.inner,
                            std::min(kColumns, p.inner - column),
                            result + outer * p.inner + column);
    }
  });
}

}  // namespace

void find_extreme(const Tensor& x, const Positions& positions, bool largest, const Tensor& result,
                  Where) {
  auto* to = result.data<std::int64_t>();
  dispatch_dtype(x.dtype(), [&]<class T>() {
    largest ? search<Larger>(x.data<T>(), positions, to)
            : search<Smaller>(x.data<T>(), positions, to);
  });
}

}  // namespace ringrad::kernels::cpu
