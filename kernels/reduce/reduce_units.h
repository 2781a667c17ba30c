// Any reduction over a ReducePlan on a CPU, split into units of work: some columns of one kept
// position, and a share of the elements that they reduce (reduce_lanes.h). If units share columns,
// their totals are merged in order at the end. The split depends only on the plan, so results do
// not depend on the number of threads.
//
// Private to kernels/reduce/*_cpu.cc.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "ringrad/kernels/loop_nest.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/reduce/reduce_lanes.h"
#include "ringrad/kernels/reduce/reduce_plan.h"

namespace ringrad::kernels::cpu::reduce_units {

inline constexpr std::int64_t kElementsPerUnit = 32 << 10;  // 3 us, well above a team's start
inline constexpr std::int64_t kMaxShares = 64;     // per result; enough for as many threads
inline constexpr std::int64_t kFewElements = 128;  // merged faster than lanes are set up

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
inline Division divide(std::int64_t n, std::int64_t by) {
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

}  // namespace ringrad::kernels::cpu::reduce_units
