// Thousands of random collectives in a row, all ranks drawing the same sequence, each result
// checked exactly. Ranks dawdle at random places, so that every rank is sometimes first and
// sometimes last.

#include <gtest/gtest.h>

#include <thread>

#include "core/view.h"
#include "parallel/comm/ranks.h"
#include "parallel/plan/direct_plan.h"
#include "tests/parallel/comm/collective_values.h"
#include "tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_same_bits;
using testing::input_of;
using testing::kAllDTypes;
using testing::reduced_tensor;

struct Call {
  int kind, root;
  DType dtype;
  ReduceOp op;
  std::int64_t count;
};

Call draw(testing::Random& random, int n) {
  Call call{};
  call.kind = static_cast<int>(random.integer(0, 6));
  call.root = static_cast<int>(random.integer(0, n));
  call.dtype = kAllDTypes[random.integer(0, std::size(kAllDTypes))];
  do call.op = static_cast<ReduceOp>(random.integer(0, 5));
  while (!testing::is_reducible(call.dtype, call.op));
  call.count = random.chance(0.1) ? random.integer(0, 4000) : random.integer(0, 40);
  return call;
}

void perform(Communicator& comm, const Call& call) {
  const int n = comm.world_size();
  const auto& [kind, root, dtype, op, count] = call;
  switch (kind) {
    case 0: {
      const Tensor x = input_of(dtype, op, comm.rank(), count);
      comm.all_reduce(x, op);
      return expect_same_bits(x, reduced_tensor(dtype, op, n, count));
    }
    case 1: {
      const Tensor output = empty({count}, {.dtype = dtype});
      comm.reduce_scatter(output, input_of(dtype, op, comm.rank(), count * n), op);
      return expect_same_bits(output, reduced_tensor(dtype, op, n, count, count * comm.rank()));
    }
    case 2: {
      const Tensor output = empty({n, count}, {.dtype = dtype});
      comm.all_gather(output, input_of(dtype, op, comm.rank(), count));
      for (int r = 0; r < n; ++r)
        expect_same_bits(view::select(output, 0, r), input_of(dtype, op, r, count));
      return;
    }
    case 3: {
      const Tensor x = input_of(dtype, op, comm.rank(), count);
      comm.broadcast(x, root);
      return expect_same_bits(x, input_of(dtype, op, root, count));
    }
    case 4:
      return comm.barrier();
    default: {  // a message from root to the next rank
      const int next = (root + 1) % n;
      if (n > 1 && comm.rank() == root) comm.send(input_of(dtype, op, root, count), next);
      if (n > 1 && comm.rank() == next) {
        const Tensor x = empty({count}, {.dtype = dtype});
        comm.recv(x, root);
        expect_same_bits(x, input_of(dtype, op, root, count));
      }
    }
  }
}

void soak(int n, int calls, const ThreadGroupOptions& options) {
  run_ranks(
      n,
      [&](Communicator& comm) {
        testing::Random common(n);                    // equal on all ranks
        testing::Random own(1000 * n + comm.rank());  // not
        for (int k = 0; k < calls && !::testing::Test::HasFailure(); ++k) {
          if (own.chance(0.02)) std::this_thread::sleep_for(std::chrono::microseconds(200));
          perform(comm, draw(common, n));
        }
      },
      options);
}

TEST(RandomCollectivesTest, TwoRanks) { soak(2, 3000, {}); }
TEST(RandomCollectivesTest, ThreeRanksInSegments) { soak(3, 1500, {.segments = 2}); }
TEST(RandomCollectivesTest, FourRanksTwoShot) {
  soak(4, 1000, {.all_reduce = two_shot_all_reduce, .segments = 3});
}
TEST(RandomCollectivesTest, SevenRanks) { soak(7, 500, {}); }

}  // namespace
}  // namespace ringrad
