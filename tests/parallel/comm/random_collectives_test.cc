// Thousands of random collectives in a row, all ranks drawing the same sequence, each result
// checked exactly. Ranks dawdle at random places, so that every rank is sometimes first and
// sometimes last.

#include <gtest/gtest.h>

#include <thread>

#include "parallel/comm/ranks.h"
#include "tests/parallel/comm/checked_collectives.h"
#include "tests/parallel/plan/every_plan.h"
#include "tests/testing.h"

namespace ringrad {
namespace {

using testing::CheckedCall;
using testing::expect_same_bits;
using testing::input_of;
using testing::kAllDTypes;

// A collective, a barrier, or a message.
struct Call {
  int kind;
  CheckedCall checked;
};
constexpr int kBarrier = std::size(kAllCollectives), kMessage = kBarrier + 1;

Call draw(testing::Random& random, int n) {
  Call call{};
  call.kind = static_cast<int>(random.integer(0, kMessage + 1));
  CheckedCall& checked = call.checked;
  if (call.kind < kBarrier) checked.collective = kAllCollectives[call.kind];
  checked.root = static_cast<int>(random.integer(0, n));
  checked.dtype = kAllDTypes[random.integer(0, std::size(kAllDTypes))];
  do checked.op = static_cast<ReduceOp>(random.integer(0, 5));
  while (!testing::is_reducible(checked.dtype, checked.op));
  checked.count = random.chance(0.1) ? random.integer(0, 4000) : random.integer(0, 40);
  return call;
}

// From root to the next rank.
void perform_message(Communicator& comm, const CheckedCall& call) {
  const int n = comm.world_size(), next = (call.root + 1) % n;
  const Tensor sent = input_of(call.dtype, call.op, call.root, call.count);
  if (n > 1 && comm.rank() == call.root) comm.send(sent, next);
  if (n > 1 && comm.rank() == next) {
    const Tensor x = empty({call.count}, {.dtype = call.dtype});
    comm.recv(x, call.root);
    expect_same_bits(x, sent);
  }
}

void perform(Communicator& comm, const Call& call) {
  if (call.kind == kBarrier) return comm.barrier();
  if (call.kind == kMessage) return perform_message(comm, call.checked);
  expect_exact(comm, call.checked);
}

void soak(int n, int calls, const GroupOptions& options) {
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
TEST(RandomCollectivesTest, FiveRanksOnTreesAndByHalving) {
  soak(5, 700,
       {.all_reduce = "halving_doubling",
        .reduce_scatter = "halving",
        .all_gather = "doubling",
        .broadcast = "binomial",
        .reduce = "binomial"});
}
TEST(RandomCollectivesTest, FourRanksOnChains) {
  soak(4, 700, {.all_reduce = "chain", .broadcast = "chain", .reduce = "chain", .segments = 4});
}
TEST(RandomCollectivesTest, FourRanksDirectly) {
  soak(4, 1000, {.all_reduce = "one_shot", .reduce_scatter = "direct", .all_gather = "direct"});
}
TEST(RandomCollectivesTest, SevenRanks) { soak(7, 500, {}); }

}  // namespace
}  // namespace ringrad
