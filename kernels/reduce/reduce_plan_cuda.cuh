// Any reduction over a ReducePlan on a GPU: how it is split into passes, blocks and threads.
// Private to kernels/*_cuda.cu; reduce_kernels.cuh explains the kernels, and reduce_pass.cuh what
// Op and Finish are.

#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/core/tensor.h"
#include "ringrad/kernels/reduce/reduce_kernels.cuh"
#include "ringrad/kernels/reduce/reduce_pass.cuh"
#include "ringrad/kernels/reduce/reduce_plan.h"

namespace ringrad::kernels::cuda {

/// The launch of a pass's kernel. A result has `shares` blocks, more than one only if their threads
/// have packs_per_thread each. kThreads threads with a group of loads each keep any GPU busy.
struct ReduceCut {
  static constexpr std::int64_t kThreads = 1 << 17;
  static constexpr std::int64_t kMostShares = kThreads / kReduceThreads;

  std::int64_t shares = 1;
  dim3 grid, block;
  unsigned log_lanes = 0;

  static ReduceCut rows(std::int64_t results, std::int64_t packs, std::int64_t packs_per_thread) {
    constexpr std::int64_t kLong = 512;  // 16 packs for each lane of a warp
    ReduceCut cut;
    if (packs >= kLong) {
      cut.log_lanes = 8;
      cut.set_shares(packs / (kReduceThreads * packs_per_thread), results * kReduceThreads);
    } else {
      while (cut.log_lanes < 5 && packs >> (cut.log_lanes + 1) >= kGroup) ++cut.log_lanes;
    }
    const std::int64_t threads = results << cut.log_lanes;
    cut.block = static_cast<unsigned>(
        std::min<std::int64_t>(kReduceThreads, (threads + kWarp - 1) / kWarp * kWarp));
    cut.grid = {num_blocks(threads, static_cast<int>(cut.block.x)),
                static_cast<unsigned>(cut.shares)};
    return cut;
  }

  /// `packs` counts packs of columns in total. 16 packs side by side fill two lines of memory; the
  /// other threads of a block split the rows, if there are at least 8 rows for each.
  static ReduceCut columns(std::int64_t packs, std::int64_t length, std::int64_t packs_per_thread) {
    ReduceCut cut;
    const std::int64_t most_rows = std::max<std::int64_t>(1, length / 8);
    const std::int64_t widest = kReduceThreads / std::min<std::int64_t>(most_rows, 16);
    const std::int64_t tiles = (packs + widest - 1) / widest, x = (packs + tiles - 1) / tiles;
    const std::int64_t y = std::min(most_rows, kReduceThreads / x);
    cut.set_shares(length / (y * packs_per_thread), packs * y);
    cut.grid = {static_cast<unsigned>(tiles), static_cast<unsigned>(cut.shares)};
    cut.block = {static_cast<unsigned>(x), static_cast<unsigned>(y)};
    return cut;
  }

 private:
  void set_shares(std::int64_t most, std::int64_t threads_per_share) {
    shares = std::clamp<std::int64_t>(std::min(most, kThreads / threads_per_share), 1, kMostShares);
  }
};

/// True if every pack of elements can be loaded, and every pack of results written, as a whole.
template <class Op, class Finish>
bool is_packed(const ReducePass& pass, const typename Op::Element* x, const Finish& finish) {
  constexpr std::int64_t V = kPackSize<Op>;
  const auto fits = [](const auto* p) {
    return reinterpret_cast<std::uintptr_t>(p) % (sizeof *p * V) == 0;
  };
  bool packed = fits(x);
  for (unsigned i = 0; i < static_cast<unsigned>(pass.kept.axes); ++i)
    packed &= pass.kept.strides[i][0] % V == 0;
  return packed &&
         (pass.width == 1 || (pass.width % V == 0 && pass.stride % V == 0 && fits(finish.out)));
}

/// result[i] = finish(merge of results i, i + num_results, ... of the pass)
template <class Op, class Finish>
void reduce_pass(const char* name, const ReducePass& pass, std::int64_t num_results, const Op& op,
                 const typename Op::Element* x, const Finish& finish, Device device, Where where) {
  constexpr int V = kPackSize<Op>;
  // Totals are few, so a third pass is rare.
  constexpr std::int64_t kPacksPerThread = kIsOverTotals<Op> ? 64 : 16;
  using Total = typename Op::Total;
  const bool by_rows = pass.width == 1 && !kIsOverTotals<Op>;
  const auto cut =
      by_rows ? ReduceCut::rows(pass.num_results, num_packs<V>(pass.length), kPacksPerThread)
              : ReduceCut::columns(pass.num_kept() * num_packs<V>(pass.width), pass.length,
                                   kPacksPerThread);

  const std::int64_t parts = cut.shares * (pass.num_results / num_results);
  Tensor memory;
  Total* totals = nullptr;  // (parts, num_results)
  if (parts > 1) {
    const auto bytes = parts * num_results * static_cast<std::int64_t>(sizeof(Total));
    memory = empty({bytes}, {.dtype = DType::uint8, .device = device}, where);
    totals = reinterpret_cast<Total*>(memory.raw_data());
  }

  const double bytes = sizeof(typename Op::Element) * static_cast<double>(pass.num_results) *
                       static_cast<double>(pass.length);
  const LaunchConfig config{.name = name, .grid = cut.grid, .block = cut.block, .bytes = bytes};
  if constexpr (kIsOverTotals<Op>) {
    launch_on(device, config, where, reduce_columns<Op, false, Finish>, op, pass, x, finish,
              totals);
  } else if (const bool packed = is_packed<Op>(pass, x, finish); by_rows) {
    launch_on(device, config, where,
              packed ? reduce_rows<Op, true, Finish> : reduce_rows<Op, false, Finish>, op, pass, x,
              finish, totals, cut.log_lanes);
  } else if constexpr (!kIsOfOneRow<Op>) {
    launch_on(device, config, where,
              packed ? reduce_columns<Op, true, Finish> : reduce_columns<Op, false, Finish>, op,
              pass, x, finish, totals);
  }
  using Next = std::conditional_t<kIsOverTotals<Op>, Op, OverTotals<typename MergesAs<Op>::type>>;
  if (totals)
    reduce_pass(name, ReducePass(make_reduce_plan(1, parts, num_results)), num_results, Next(),
                totals, finish, device, where);
}

/// Every result of the plan = finish(merge of its elements, mapped).
///
/// REQUIRES: x is on `device`; where width is 1, the innermost reduced axis has stride 1; the plan
///           has one result if OneRow is a base of Op
template <class Op, class Finish>
void reduce(const char* name, const ReducePlan& plan, const Op& op, const typename Op::Element* x,
            const Finish& finish, Device device, Where where) {
  reduce_pass(name, ReducePass(plan), plan.num_results, op, x, finish, device, where);
}

}  // namespace ringrad::kernels::cuda
