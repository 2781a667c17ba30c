// One loop serves every reduction. It merges rows of x, element by element, into a row of lanes.
//
//     columns are kept: a lane for each       a run is reduced: pieces of it are the rows
//
//     x      a0 a1 a2 a3                      x      a0 a1 a2 a3 a4 a5 a6 a7 a8 ...
//            b0 b1 b2 b3
//            c0 c1 c2 c3                      rows   a0 a1 a2 a3
//            -----------  merged down                a4 a5 a6 a7
//     lanes  y0 y1 y2 y3                             a8 ...       merged down, then across
//
// A few kept columns are repeated side by side in the lanes as often as they fit, and then also
// merged across.
//
// A lane merges at most kBlock rows in the arithmetic of x (float for the 16-bit types) before it
// is added to its total in a wider type. The work is split into units: some columns of one kept
// position, and a share of the elements that they reduce. If units share columns, their totals are
// merged in order at the end. The split depends only on the plan, so results do not depend on the
// number of threads.

#include "ringrad/kernels/reduce/reduce_cpu.h"

#include <algorithm>
#include <memory>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/reduce/reduce_ops.h"

namespace ringrad::kernels::cpu {
namespace {

using reduce_ops::kHasCenter;
using reduce_ops::Max;
using reduce_ops::Min;
using reduce_ops::Product;
using reduce_ops::Sum;
using reduce_ops::SumDeviations;
using reduce_ops::SumSquaredDeviations;

constexpr std::int64_t kMaxLanes = 1024;  // their totals take 8 KiB of the first-level cache
constexpr std::int64_t kRunLanes = 64;    // four vectors of 16 floats hide the latency of addition
constexpr std::int64_t kBlock = 64;       // 64 / 4 dependent additions in float
constexpr std::int64_t kElementsPerUnit = 32 << 10;  // 3 microseconds, well above a team's start
constexpr std::int64_t kMaxShares = 64;              // per result; enough for as many threads
constexpr std::int64_t kFewElements = 128;           // merged faster than lanes are set up

// -- The loops ----------------------------------------------------------------------------------

// Element c of a row, mapped, with the center of its column if the operation has one.
template <class Op, class T = typename Op::Element, class P = typename Op::Partial>
P map_element(const T* x, [[maybe_unused]] const P* center, std::int64_t c) {
  if constexpr (kHasCenter<Op>)
    return Op::map(x[c], center[c]);
  else
    return Op::map(x[c]);
}

// partial[c] = merge of partial[c] and column c of all rows of x
template <class Op, class T = typename Op::Element, class P = typename Op::Partial>
RINGRAD_CLONES void merge_rows(P* __restrict partial, const T* __restrict x, std::int64_t rows,
                               std::int64_t row_stride, std::int64_t width,
                               const P* __restrict center) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {  // four rows per load and store of the lanes
    const T* x0 = x + r * row_stride;
    const T* x1 = x0 + row_stride;
    const T* x2 = x1 + row_stride;
    const T* x3 = x2 + row_stride;
    for (std::int64_t c = 0; c < width; ++c) {
      const P low = Op::merge(map_element<Op>(x0, center, c), map_element<Op>(x1, center, c));
      const P high = Op::merge(map_element<Op>(x2, center, c), map_element<Op>(x3, center, c));
      partial[c] = Op::merge(partial[c], Op::merge(low, high));
    }
  }
  for (; r < rows; ++r)
    for (std::int64_t c = 0; c < width; ++c)
      partial[c] = Op::merge(partial[c], map_element<Op>(x + r * row_stride, center, c));
}

template <class Op, class P = typename Op::Partial, class A = typename Op::Total>
RINGRAD_CLONES void flush_lanes(A* __restrict total, P* __restrict partial, std::int64_t lanes) {
  for (std::int64_t c = 0; c < lanes; ++c) {
    total[c] = Op::merge(total[c], static_cast<A>(partial[c]));
    partial[c] = static_cast<P>(Op::kStart);
  }
}

// Merges groups of `width` lanes into the first group. REQUIRES: a power of two groups
template <class Op, class A = typename Op::Total>
RINGRAD_CLONES void fold_lanes(A* total, std::int64_t lanes, std::int64_t width) {
  for (std::int64_t half = lanes / 2; half >= width; half /= 2)
    for (std::int64_t c = 0; c < half; ++c) total[c] = Op::merge(total[c], total[c + half]);
}

// The lanes of one unit of work.
template <class Op>
class Lanes {
 public:
  using T = typename Op::Element;
  using Partial = typename Op::Partial;
  using Total = typename Op::Total;

  // For `length` rows of `width` columns. `center` holds `width` numbers, or is null if the
  // operation has no center.
  Lanes(std::int64_t width, std::int64_t length, bool rows_are_neighbours, const Partial* center)
      : width_(width), lanes_(width) {
    // Limits the lanes to a number that is filled a few times, because they must be merged at the
    // end.
    const std::int64_t most = std::min(kRunLanes, length * width / 4);
    if (rows_are_neighbours)
      while (2 * lanes_ <= most) lanes_ *= 2;
    std::fill_n(partial_, lanes_, static_cast<Partial>(Op::kStart));
    std::fill_n(total_, lanes_, Op::kStart);
    if constexpr (kHasCenter<Op>)
      for (std::int64_t c = 0; c < lanes_; ++c) center_[c] = center[c % width];
  }

  void merge(const T* x, std::int64_t rows, std::int64_t row_stride) {
    if (lanes_ == width_) return merge_long(x, rows, row_stride);
    const std::int64_t elements = rows * width_, whole = elements / lanes_;
    merge_long(x, whole, lanes_);
    const std::int64_t rest = elements - whole * lanes_;
    if (rest > 0) merge_rows<Op>(partial_, x + whole * lanes_, 1, 0, rest, center_);
    pending_ += rest > 0;
  }

  // The reduction of all rows, `width` totals.
  const Total* finish() {
    flush_lanes<Op>(total_, partial_, lanes_);
    fold_lanes<Op>(total_, lanes_, width_);
    return total_;
  }

 private:
  void merge_long(const T* x, std::int64_t rows, std::int64_t row_stride) {
    while (rows > 0) {
      if (pending_ >= kBlock) {
        flush_lanes<Op>(total_, partial_, lanes_);
        pending_ = 0;
      }
      const std::int64_t taken = std::min(rows, kBlock - pending_);
      merge_rows<Op>(partial_, x, taken, row_stride, lanes_, center_);
      pending_ += taken;
      x += taken * row_stride;
      rows -= taken;
    }
  }

  std::int64_t width_, lanes_;
  std::int64_t pending_ = 0;  // rows merged into the partials
  alignas(64) Partial partial_[kMaxLanes];
  alignas(64) Partial center_[kHasCenter<Op> ? kMaxLanes : 1];
  alignas(64) Total total_[kMaxLanes];
};

// -- The split into units -----------------------------------------------------------------------

struct Cut {
  explicit Cut(const ReducePlan& plan)
      : length(plan.length),
        columns(std::min(plan.width, kMaxLanes)),
        column_tiles((plan.width + kMaxLanes - 1) / kMaxLanes),
        tiles(plan.kept.num_rows() * column_tiles) {
    const std::int64_t wanted = std::min(kMaxShares / tiles, length * columns / kElementsPerUnit);
    shares = std::max<std::int64_t>(1, wanted);
  }

  std::int64_t grain() const {
    const std::int64_t elements = std::max<std::int64_t>(1, length * columns / shares);
    return (kElementsPerUnit + elements - 1) / elements;
  }

  std::int64_t length;        // elements per result
  std::int64_t columns;       // per unit; fewer in the last tile
  std::int64_t column_tiles;  // per kept position
  std::int64_t tiles;         // of all kept positions
  std::int64_t shares;        // units per tile
};

// Calls body(x, rows) for the pieces of runs that make up positions [begin, end) of the reduced
// elements.
template <class T, class Body>
void for_each_run(const LoopNest<1>& reduced, const T* x, std::int64_t begin, std::int64_t end,
                  Body&& body) {
  const std::int64_t run = reduced.row_extent(), step = reduced.row_strides()[0];
  if (reduced.axes <= 1) return body(x + begin * step, end - begin);
  std::int64_t start = begin / run * run;
  for_each_row(reduced, begin / run, (end + run - 1) / run,
               [&](const LoopNest<1>::Offsets& offsets) {
                 const std::int64_t low = std::max<std::int64_t>(begin - start, 0);
                 const std::int64_t high = std::min(end - start, run);
                 body(x + offsets[0] + low * step, high - low);
                 start += run;
               });
}

// Reduces positions [begin, end) of `columns` columns of x and calls write(totals, columns).
template <class Op, class Write>
void reduce_unit(const ReducePlan& plan, const typename Op::Element* x, std::int64_t columns,
                 std::int64_t begin, std::int64_t end, const typename Op::Partial* center,
                 Write&& write) {
  using Total = typename Op::Total;
  const std::int64_t step = plan.reduced.row_strides()[0];
  if (plan.width == 1 && end - begin <= kFewElements) {
    Total totals[4] = {Op::kStart, Op::kStart, Op::kStart, Op::kStart};
    for_each_run(plan.reduced, x, begin, end, [&](const auto* run, std::int64_t n) {
      const auto element = [&](std::int64_t i) {
        return static_cast<Total>(map_element<Op>(run + i * step, center, 0));
      };
      std::int64_t i = 0;
      for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; ++k) totals[k] = Op::merge(totals[k], element(i + k));
      for (; i < n; ++i) totals[0] = Op::merge(totals[0], element(i));
    });
    totals[0] = Op::merge(Op::merge(totals[0], totals[1]), Op::merge(totals[2], totals[3]));
    return write(totals, std::int64_t{1});
  }
  Lanes<Op> lanes(columns, end - begin, step == plan.width || plan.reduced.row_extent() == 1,
                  center);
  for_each_run(plan.reduced, x, begin, end,
               [&](const auto* run, std::int64_t rows) { lanes.merge(run, rows, step); });
  write(lanes.finish(), columns);
}

struct Division {
  std::int64_t quotient, remainder;
};

// Most divisors here are 1, and a division takes longer than a short row.
Division divide(std::int64_t n, std::int64_t by) {
  return by == 1 ? Division{n, 0} : Division{n / by, n % by};
}

// finish(result index, totals, columns) stores results.
template <class Op, class Finish>
void reduce(const ReducePlan& plan, const typename Op::Element* x,
            const typename Op::Partial* center, Finish finish) {
  using Total = typename Op::Total;
  const Cut cut(plan);
  std::unique_ptr<Total[]> totals;  // (shares, results), if results have more than one share
  if (cut.shares > 1)
    totals = std::make_unique_for_overwrite<Total[]>(
        static_cast<std::size_t>(cut.shares * plan.num_results));

  parallel_for(cut.tiles * cut.shares, cut.grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const auto [tile, share] = divide(unit, cut.shares);
      const auto [kept, column_tile] = divide(tile, cut.column_tiles);
      const std::int64_t column = column_tile * kMaxLanes;
      const std::int64_t index = kept * plan.width + column;
      const auto write = [&, share = share](const Total* total, std::int64_t columns) {
        if (totals)
          std::copy_n(total, columns,
                      &totals[static_cast<std::size_t>(share * plan.num_results + index)]);
        else
          finish(index, total, columns);
      };
      const std::int64_t low = divide(cut.length * share, cut.shares).quotient;
      const std::int64_t high = divide(cut.length * (share + 1), cut.shares).quotient;
      reduce_unit<Op>(plan, x + plan.kept.row_offsets(kept)[0] + column,
                      std::min(kMaxLanes, plan.width - column), low, high,
                      center ? center + index : nullptr, write);
    }
  });
  if (!totals) return;
  Total* first = totals.get();
  for (std::int64_t share = 1; share < cut.shares; ++share)
    for (std::int64_t i = 0; i < plan.num_results; ++i)
      first[i] = Op::merge(first[i], first[share * plan.num_results + i]);
  finish(0, first, plan.num_results);
}

template <class T>
struct Quotients {
  T* result;
  double divisor;

  void operator()(std::int64_t index, const double* total, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i)
      result[index + i] = T(static_cast<MathType<T>>(total[i] / divisor));
  }
};

// Integers modulo 2^64, stored as int64.
template <class Op>
void store_integers(const ReducePlan& plan, const Tensor& x, const Tensor& result) {
  auto* y = reinterpret_cast<std::uint64_t*>(result.data<std::int64_t>());
  reduce<Op>(plan, x.data<typename Op::Element>(), nullptr,
             [y](std::int64_t index, const std::uint64_t* total, std::int64_t n) {
               std::copy_n(total, n, y + index);
             });
}

template <template <class> class Op>
void reduce_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                       const Tensor& result) {
  const auto run = [&]<class T>() {
    reduce<Op<T>>(plan, x.data<T>(), center.data<T>(), Quotients<double>{result.data<double>(), 1});
  };
  x.dtype() == DType::float64 ? run.template operator()<double>()
                              : run.template operator()<float>();
}

template <template <class> class Choice>
void choose(const ReducePlan& plan, const Tensor& x, const Tensor& result) {
  dispatch_dtype(x.dtype(), [&]<class T>() {
    T* y = result.data<T>();
    reduce<Choice<T>>(plan, x.data<T>(), nullptr,
                      [y](std::int64_t index, const auto* total, std::int64_t n) {
                        for (std::int64_t i = 0; i < n; ++i) y[index + i] = T(total[i]);
                      });
  });
}

}  // namespace

void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result) {
  dispatch_dtype(x.dtype(), [&]<class T>() {
    if constexpr (is_floating(dtype_of<T>)) {
      reduce<Sum<T>>(plan, x.data<T>(), nullptr, Quotients<T>{result.data<T>(), divisor});
    } else {
      store_integers<Sum<T>>(plan, x, result);
    }
  });
}

void product(const ReducePlan& plan, const Tensor& x, const Tensor& result) {
  const auto run = [&]<class T>() {
    reduce<Product<T>>(plan, x.data<T>(), nullptr, Quotients<T>{result.data<T>(), 1});
  };
  if (x.dtype() == DType::float64) return run.template operator()<double>();
  if (x.dtype() == DType::float32) return run.template operator()<float>();
  store_integers<Product<std::int64_t>>(plan, x, result);
}

void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                    const Tensor& result) {
  reduce_deviations<SumDeviations>(plan, x, center, result);
}

void sum_squared_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                            const Tensor& result) {
  reduce_deviations<SumSquaredDeviations>(plan, x, center, result);
}

void max(const ReducePlan& plan, const Tensor& x, const Tensor& result) {
  choose<Max>(plan, x, result);
}

void min(const ReducePlan& plan, const Tensor& x, const Tensor& result) {
  choose<Min>(plan, x, result);
}

}  // namespace ringrad::kernels::cpu
