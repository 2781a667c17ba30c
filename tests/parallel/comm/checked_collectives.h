// A collective that checks its own result: whole, exact, and nothing but.

#pragma once

#include "core/view.h"
#include "kernels/copy.h"
#include "parallel/plan/collective_plan.h"
#include "tests/parallel/comm/collective_values.h"
#include "tests/testing.h"

namespace ringrad::testing {

struct CheckedCall {
  Collective collective;
  DType dtype;
  ReduceOp op;
  int root;
  std::int64_t count;  ///< elements; of a part, where a rank has one
};

/// Performs the call on one rank of all that perform the same.
///
/// REQUIRES: is_reducible(call.dtype, call.op)
inline void expect_exact(Communicator& comm, const CheckedCall& call) {
  const auto& [collective, dtype, op, root, count] = call;
  const int n = comm.world_size(), rank = comm.rank();
  SCOPED_TRACE(concat(name(collective), ' ', op, ' ', dtype, ' ', count, " elements, rank ", rank,
                      " of ", n, ", root ", root));
  switch (collective) {
    case Collective::all_reduce: {
      const Tensor x = input_of(dtype, op, rank, count);
      comm.all_reduce(x, op);
      return expect_same_bits(x, reduced_tensor(dtype, op, n, count));
    }
    case Collective::reduce_scatter: {
      const Tensor input = input_of(dtype, op, rank, count * n);
      const Tensor output = empty({count}, {.dtype = dtype});
      comm.reduce_scatter(output, input, op);
      expect_same_bits(input, input_of(dtype, op, rank, count * n));  // not touched
      return expect_same_bits(output, reduced_tensor(dtype, op, n, count, count * rank));
    }
    case Collective::all_gather: {
      const Tensor output = empty({n, count}, {.dtype = dtype});
      comm.all_gather(output, input_of(dtype, op, rank, count));
      for (int r = 0; r < n; ++r)
        expect_same_bits(view::select(output, 0, r), input_of(dtype, op, r, count));
      return;
    }
    case Collective::broadcast: {
      const Tensor x = input_of(dtype, op, rank, count);
      comm.broadcast(x, root);
      return expect_same_bits(x, input_of(dtype, op, root, count));
    }
    case Collective::reduce: {
      const Tensor x = input_of(dtype, op, rank, count);
      comm.reduce(x, root, op);
      if (rank == root) expect_same_bits(x, reduced_tensor(dtype, op, n, count));
      return;
    }
    case Collective::all_to_all: {
      const Tensor input = input_of(dtype, op, rank, count * n);
      const Tensor output = empty({n, count}, {.dtype = dtype});
      comm.all_to_all(output, input);
      expect_same_bits(input, input_of(dtype, op, rank, count * n));  // not touched
      for (int s = 0; s < n; ++s)
        expect_same_bits(view::select(output, 0, s), input_of(dtype, op, s, count, count * rank));
    }
  }
}

/// An all_reduce of slices that begin anywhere, elsewhere on each of two ranks: of them, and of nothing beside them.
inline void expect_exact_if_misaligned(Communicator& comm) {
  for (const DType dtype : {DType::uint8, DType::float16, DType::bfloat16, DType::float64})
    for (std::int64_t offset = 0; offset < 16; ++offset) {
      const std::int64_t begin = offset * (1 + comm.rank()) % 16;
      const Tensor all = zeros({600}, {.dtype = dtype});
      const Tensor x = view::slice(all, 0, begin, begin + 500);
      kernels::copy_(
          x, make_tensor(dtype, 500, [&](std::int64_t i) { return i % 50 * (comm.rank() + 1); }));
      comm.all_reduce(x);
      const auto values = all.to_vector<float>();
      for (std::int64_t i = 0; i < 600; ++i) {
        const bool is_inside = i >= begin && i < begin + 500;
        ASSERT_EQ(values[i], is_inside ? (i - begin) % 50 * 3 : 0) << dtype << ' ' << offset;
      }
    }
}

}  // namespace ringrad::testing
