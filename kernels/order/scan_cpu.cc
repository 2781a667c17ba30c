#include <algorithm>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/order/scan.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// A step of a scan waits for the one before it, so several lines advance together.
// Lines that are far apart in memory hide each other's latency; more of them would compete for
// cache sets.
constexpr int kLines = 4;
constexpr int kNeighbours = 32;  // lines that are side by side in memory: vectors
constexpr std::int64_t kElementsPerThread = 1 << 14;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, std::int64_t>, std::int64_t, double>;

template <class T>
struct Sum {
  const T* x;
  static constexpr Wide<T> kStart = 0;
  Wide<T> next(Wide<T> sum, std::int64_t at) const { return sum + static_cast<Wide<T>>(x[at]); }
};

template <class T>
struct Product {
  const T* x;
  static constexpr Wide<T> kStart = 1;
  Wide<T> next(Wide<T> product, std::int64_t at) const {
    return product * static_cast<Wide<T>>(x[at]);
  }
};

template <class T>
struct Recurrence {
  const T *a, *b;
  static constexpr Wide<T> kStart = 0;
  Wide<T> next(Wide<T> y, std::int64_t at) const {
    return static_cast<Wide<T>>(a[at]) * y + static_cast<Wide<T>>(b[at]);
  }
};

// y[first + l * distance + i * step] for kCount lines l and n elements i.
template <int kCount, class Scan, class T>
[[gnu::always_inline]] inline void scan_lines(Scan scan, std::int64_t first, std::int64_t distance,
                                              std::int64_t n, std::int64_t step, T* y) {
  Wide<T> state[kCount];
  for (int l = 0; l < kCount; ++l) state[l] = Scan::kStart;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = first + i * step;
    for (int l = 0; l < kCount; ++l) {
      state[l] = scan.next(state[l], at + l * distance);
      y[at + l * distance] = T(static_cast<MathType<T>>(state[l]));
    }
  }
}

template <class Scan, class T>
RINGRAD_CLONES void scan_neighbours(Scan scan, std::int64_t first, std::int64_t n,
                                    std::int64_t step, T* y) {
  scan_lines<kNeighbours>(scan, first, 1, n, step, y);
}

template <class Scan, class T>
void run(Scan scan, const Lines& lines, bool reversed, T* y) {
  // `count` lines, of which the first begins at `first`, `distance` apart.
  const auto several = [&](std::int64_t first, std::int64_t count, std::int64_t distance) {
    const std::int64_t start = reversed ? first + (lines.n - 1) * lines.inner : first;
    const std::int64_t step = reversed ? -lines.inner : lines.inner;
    std::int64_t l = 0;
    if (distance == 1)
      for (; l + kNeighbours <= count; l += kNeighbours)
        scan_neighbours(scan, start + l, lines.n, step, y);
    for (; l + kLines <= count; l += kLines)
      scan_lines<kLines>(scan, start + l * distance, distance, lines.n, step, y);
    for (; l < count; ++l) scan_lines<1>(scan, start + l * distance, 0, lines.n, step, y);
  };
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerThread / lines.n);
  if (lines.inner == 1)
    return parallel_for(lines.outer, grain, [&](std::int64_t begin, std::int64_t end) {
      several(begin * lines.n, end - begin, lines.n);
    });
  // Bundles begin at fixed lines: vectors may contract a * b + c, so which lines they take must not
  // depend on the number of threads.
  const std::int64_t bundles = (lines.inner + kNeighbours - 1) / kNeighbours;
  parallel_for(lines.outer * bundles, std::max<std::int64_t>(1, grain / kNeighbours),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t bundle = begin; bundle < end; ++bundle) {
                   const std::int64_t outer = bundle / bundles;
                   const std::int64_t inner = bundle % bundles * kNeighbours;
                   several(outer * lines.n * lines.inner + inner,
                           std::min<std::int64_t>(kNeighbours, lines.inner - inner), 1);
                 }
               });
}

}  // namespace

void scan(ScanOp op, const Tensor& x, const Lines& lines, bool reversed, const Tensor& y) {
  const auto of = [&]<class T>() {
    if (op == ScanOp::sum)
      run(Sum<T>{x.data<T>()}, lines, reversed, y.data<T>());
    else
      run(Product<T>{x.data<T>()}, lines, reversed, y.data<T>());
  };
  if (x.dtype() == DType::int64) return of.template operator()<std::int64_t>();
  dispatch_floating(x.dtype(), of);
}

void recurrence(const Tensor& a, const Tensor& b, const Lines& lines, bool reversed,
                const Tensor& y) {
  dispatch_floating(a.dtype(), [&]<class T>() {
    run(Recurrence<T>{a.data<T>(), b.data<T>()}, lines, reversed, y.data<T>());
  });
}

}  // namespace ringrad::kernels::cpu
