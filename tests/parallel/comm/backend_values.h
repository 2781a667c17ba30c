// What collectives of every backend compute, for backend_suite.h.

#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/parallel/comm/blocks/reduce_terms.h"
#include "ringrad/tests/parallel/comm/backend_traits.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product,
                                             ReduceOp::min, ReduceOp::max};

inline bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}

/// Every collective, dtype and operation. Sizes: zero elements, one, about the number of ranks, and
/// many kilobytes.
inline void expect_exact_collectives(Communicator& comm) {
  const int n = comm.world_size();
  for (const Collective collective : kAllCollectives) {
    for (const DType dtype : kAllDTypes)
      for (const ReduceOp op : kAllReduceOps)
        if (is_reducible(dtype, op) && (reduces(collective) || op == ReduceOp::max))
          expect_exact(comm, {collective, dtype, op, n / 2, kAmpleElements});
    for (const std::int64_t count : {0, 1, n - 1, n, 20'000})
      expect_exact(comm, {collective, DType::float32, ReduceOp::sum, n - 1, count});
  }
  comm.barrier();
}

/// Views that begin anywhere in their storage, and outputs that overlap the input.
inline void expect_any_place(Communicator& comm) {
  const int n = comm.world_size(), rank = comm.rank();
  for (const std::int64_t offset : {1, 3}) {
    const std::int64_t count = 5000 - offset;
    const Tensor whole = input_of(DType::float16, ReduceOp::sum, rank, 5000);
    const Tensor part = view::slice(whole, 0, offset, 5000);
    comm.all_reduce(part);
    expect_same_bits(part, reduced_tensor(DType::float16, ReduceOp::sum, n, count, offset));
    expect_same_bits(view::slice(whole, 0, 0, offset),
                     input_of(DType::float16, ReduceOp::sum, rank, offset));
  }
  const Tensor all = zeros({n, 100});
  const Tensor own = view::select(all, 0, rank);
  kernels::fill_(own, rank);
  comm.all_gather(all, own);
  for (int r = 0; r < n; ++r) expect_same_bits(view::select(all, 0, r), full({100}, r));
}

/// Numbers that reveal rounding and order, with NaNs, infinities and zeros of both signs among
/// them.
inline Tensor odd_values(DType dtype, int rank, std::int64_t count) {
  constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(), 0.0, -0.0};
  Random random(static_cast<std::uint64_t>(rank) + 1);
  return make_tensor(dtype, count, [&](std::int64_t i) {
    if (i % 7 == 0) return kSpecial[(i / 7 + rank) % 5];
    return random.real(-1, 1) * std::exp2(static_cast<double>(random.integer(-8, 8)));
  });
}

/// After an all_reduce all ranks hold the same bits, and a NaN has reached them all.
inline void expect_identical_bits(Communicator& comm, const BackendTraits& traits) {
  const int n = comm.world_size();
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16})
    for (const ReduceOp op : kAllReduceOps)
      for (const std::int64_t count : {50, 5000}) {
        const Tensor x = odd_values(dtype, comm.rank(), count);
        comm.all_reduce(x, op);
        const Tensor all = empty({n, count}, {.dtype = dtype});
        comm.all_gather(all, x);
        for (int r = 0; r < n; ++r) expect_same_bits(view::select(all, 0, r), x);
        if (!traits.min_and_max_keep_nan && (op == ReduceOp::min || op == ReduceOp::max)) continue;
        const auto values = x.to_vector<double>();
        for (int r = 0; r < n; ++r)  // where rank r had a NaN
          EXPECT_TRUE(std::isnan(values[static_cast<std::size_t>((5 - r % 5) % 5 * 7)]))
              << op << ' ' << dtype;
      }
}

/// Reductions add in rank order and round once, however the buffer is cut.
inline void expect_canonical_bits(Communicator& comm) {
  const int n = comm.world_size();
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const std::int64_t count : {50, 5003}) {
      const Options carried{.dtype = carrier_dtype(dtype)};
      std::vector<Tensor> inputs;
      std::vector<const std::byte*> terms;
      for (int r = 0; r < n; ++r) {
        inputs.push_back(empty({count * n}, carried));
        to_carrier(dtype, odd_values(dtype, r, count * n).raw_data(), inputs.back().raw_data(),
                   count * n);
        terms.push_back(inputs.back().raw_data());
      }
      const Tensor sum = empty({count * n}, carried),
                   expected = empty({n, count}, {.dtype = dtype});
      std::byte* const sums[] = {sum.raw_data()};
      reduce_terms(carrier_dtype(dtype), ReduceOp::mean, terms, sums, count * n, n);
      from_carrier(dtype, sum.raw_data(), expected.raw_data(), count * n);

      const Tensor x = odd_values(dtype, comm.rank(), count * n),
                   part = empty({count}, {.dtype = dtype});
      comm.reduce_scatter(part, x, ReduceOp::mean);
      expect_same_bits(part, view::select(expected, 0, comm.rank()));
      const Tensor y = contiguous_copy(x);
      comm.reduce(y, n - 1, ReduceOp::mean);
      if (comm.rank() == n - 1) expect_same_bits(y, view::reshape(expected, {n * count}));
      comm.all_reduce(x, ReduceOp::mean);
      expect_same_bits(x, view::reshape(expected, {n * count}));
    }
}

}  // namespace ringrad::testing
