// A collective that checks its own result: complete, exact, and without side effects.

#pragma once

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"
#include "ringrad/tests/parallel/comm/collective_values.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

struct CheckedCall {
  Collective collective;
  DType dtype;
  ReduceOp op;
  int root;
  std::int64_t count;  ///< elements; of one rank's part, in collectives that have parts
  /// Position of the first element. Consecutive calls have different positions: with equal values,
  /// a rank that reads the previous call's values would go unnoticed.
  std::int64_t first = 0;
};

/// Makes the call on one rank; all other ranks make the same call.
///
/// REQUIRES: is_reducible(call.dtype, call.op)
inline void expect_exact(Communicator& comm, const CheckedCall& call) {
  const auto& [collective, dtype, op, root, count, first] = call;
  const int n = comm.world_size(), rank = comm.rank();
  SCOPED_TRACE(concat(name(collective), ' ', op, ' ', dtype, ' ', count, " elements, rank ", rank,
                      " of ", n, ", root ", root));
  switch (collective) {
    case Collective::all_reduce: {
      const Tensor x = input_of(dtype, op, rank, count, first);
      comm.all_reduce(x, op);
      return expect_same_bits(x, reduced_tensor(dtype, op, n, count, first));
    }
    case Collective::reduce_scatter: {
      const Tensor input = input_of(dtype, op, rank, count * n, first);
      const Tensor output = zeros({count}, {.dtype = dtype});
      comm.reduce_scatter(output, input, op);
      expect_same_bits(input, input_of(dtype, op, rank, count * n, first));  // unchanged
      return expect_same_bits(output, reduced_tensor(dtype, op, n, count, first + count * rank));
    }
    case Collective::all_gather: {
      const Tensor output = zeros({n, count}, {.dtype = dtype});
      comm.all_gather(output, input_of(dtype, op, rank, count, first));
      for (int r = 0; r < n; ++r)
        expect_same_bits(view::select(output, 0, r), input_of(dtype, op, r, count, first));
      return;
    }
    case Collective::broadcast: {
      const Tensor x = input_of(dtype, op, rank, count, first);
      comm.broadcast(x, root);
      return expect_same_bits(x, input_of(dtype, op, root, count, first));
    }
    case Collective::reduce: {
      const Tensor x = input_of(dtype, op, rank, count, first);
      comm.reduce(x, root, op);
      if (rank == root) expect_same_bits(x, reduced_tensor(dtype, op, n, count, first));
      return;
    }
    case Collective::all_to_all: {
      const Tensor input = input_of(dtype, op, rank, count * n, first);
      const Tensor output = zeros({n, count}, {.dtype = dtype});
      comm.all_to_all(output, input);
      expect_same_bits(input, input_of(dtype, op, rank, count * n, first));  // unchanged
      for (int s = 0; s < n; ++s)
        expect_same_bits(view::select(output, 0, s),
                         input_of(dtype, op, s, count, first + count * rank));
    }
  }
}

/// An all_reduce of one element, and one of many. Consecutive calls must pass different values of
/// `first`.
inline void expect_sum_from(Communicator& comm, std::int64_t first) {
  for (const std::int64_t count : {1, 3000})
    expect_exact(comm, {Collective::all_reduce, DType::float32, ReduceOp::sum, 0, count, first});
}
inline void expect_sum_works(Communicator& comm) { expect_sum_from(comm, 0); }

/// An all_reduce of slices that begin at any byte, at different places on the two ranks. It must
/// change the slices and nothing beside them.
inline void expect_exact_if_misaligned(Communicator& comm) {
  for (const DType dtype : {DType::uint8, DType::float16, DType::bfloat16, DType::float64})
    for (std::int64_t offset = 0; offset < 16; ++offset) {
      const std::int64_t begin = offset * (1 + comm.rank()) % 16;
      const Tensor all = zeros({600}, {.dtype = dtype});
      const Tensor x = view::slice(all, 0, begin, begin + 500);
      kernels::copy_(x, input_of(dtype, ReduceOp::sum, comm.rank(), 500, offset));
      comm.all_reduce(x);
      const Tensor expected = zeros({600}, {.dtype = dtype});
      kernels::copy_(view::slice(expected, 0, begin, begin + 500),
                     reduced_tensor(dtype, ReduceOp::sum, 2, 500, offset));
      expect_same_bits(all, expected);
    }
}

}  // namespace ringrad::testing
