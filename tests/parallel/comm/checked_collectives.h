// A collective that checks its own result: whole, exact, and nothing but.

#pragma once

#include "core/view.h"
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

}  // namespace ringrad::testing
