// Calls drawn at random, the same on all ranks, each of which checks its own result.

#pragma once

#include <iterator>

#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"
#include "ringrad/tests/testing.h"

namespace ringrad::testing {

/// A collective, a barrier, or a message.
struct Call {
  int kind;
  CheckedCall checked;
};
inline constexpr int kBarrier = std::size(kAllCollectives), kMessage = kBarrier + 1;

/// REQUIRES: all ranks draw the same from equal generators
inline Call draw(Random& random, int n) {
  Call call{};
  call.kind = static_cast<int>(random.integer(0, kMessage + 1));
  CheckedCall& checked = call.checked;
  if (call.kind < kBarrier) checked.collective = kAllCollectives[call.kind];
  checked.root = static_cast<int>(random.integer(0, n));
  checked.dtype = kAllDTypes[random.integer(0, std::size(kAllDTypes))];
  do checked.op = static_cast<ReduceOp>(random.integer(0, 5));
  while (!is_reducible(checked.dtype, checked.op));
  checked.count = random.chance(0.1) ? random.integer(0, 4000) : random.integer(0, 40);
  checked.first = random.integer(0, 1 << 20);
  return call;
}

// Sends from the root to the next rank.
inline void perform_message(Communicator& comm, const CheckedCall& call) {
  const int n = comm.world_size(), next = (call.root + 1) % n;
  const Tensor sent = input_of(call.dtype, call.op, call.root, call.count, call.first);
  if (n > 1 && comm.rank() == call.root) comm.send(sent, next);
  if (n > 1 && comm.rank() == next) {
    const Tensor x = zeros({call.count}, {.dtype = call.dtype});
    comm.recv(x, call.root);
    expect_same_bits(x, sent);
  }
}

/// Performs the call on one rank, and checks its result.
inline void perform(Communicator& comm, const Call& call) {
  if (call.kind == kBarrier) return comm.barrier();
  if (call.kind == kMessage) return perform_message(comm, call.checked);
  expect_exact(comm, call.checked);
}

}  // namespace ringrad::testing
