// Every algorithm on threads: exact results, and the bits that its order of sums promises.

#include <gtest/gtest.h>

#include <cstring>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/plan/collective/chain_plan.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/options_with.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"

namespace ringrad {
namespace {

using testing::expect_exact;
using testing::expect_same_bits;
using testing::expect_throws;
using testing::kAllDTypes;
using testing::options_with;

constexpr int kMaxRanks = 8;
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::product, ReduceOp::min,
                                ReduceOp::max};

// --- Exactness ---

TEST(ThreadAlgorithmsTest, AllAreExactForAllDTypesOpsAndCounts) {
  for (Collective collective : kAllCollectives)
    for (const std::string& algorithm : algorithm_names(collective))
      for (int n = 1; n <= kMaxRanks; ++n) {
        SCOPED_TRACE(algorithm);
        GroupOptions options = options_with(collective, algorithm);
        options.segments = 2;
        run_ranks(
            n,
            [&](Communicator& comm) {
              for (DType dtype : kAllDTypes)
                for (ReduceOp op : kAllOps)
                  if (testing::is_reducible(dtype, op))
                    for (std::int64_t count : {0, 1, n - 1, n, n + 1, 2 * n + 1, 259})
                      expect_exact(comm, {collective, dtype, op, (n - 1) / 2, count});
            },
            options);
      }
}

// Every number of segments, every root, every number of ranks per host.
TEST(ThreadAlgorithmsTest, AllVariantsAreExact) {
  for (Collective collective : kAllCollectives)
    for (int n = 1; n <= kMaxRanks; ++n)
      for_every_plan(collective, n, [&](const CollectivePlan& plan) {
        SCOPED_TRACE(plan.algorithm);
        run_ranks(
            n,
            [&](Communicator& comm) {
              for (std::int64_t count : {1, 2, 5, 67}) {
                expect_exact(comm, {collective, DType::float32, ReduceOp::sum, plan.root, count});
                expect_exact(comm, {collective, DType::bfloat16, ReduceOp::mean, plan.root, count});
              }
            },
            options_with(plan));
      });
}

// --- Bits ---

float term(int rank, std::int64_t i) {
  return static_cast<float>(testing::Random(1000 * rank + i).real(-1, 1));
}

// Sums of the terms of ranks [first, last): ((x0 + x1) + x2) + ..., or pairs of pairs.
float canonical_sum(int first, int last, std::int64_t i) {
  float sum = term(first, i);
  for (int rank = first + 1; rank < last; ++rank) sum += term(rank, i);
  return sum;
}
float tree_sum(int first, int last, std::int64_t i) {
  if (last - first == 1) return term(first, i);
  const int middle = (first + last) / 2;
  return tree_sum(first, middle, i) + tree_sum(middle, last, i);
}

// The sum over all ranks, as rank 0 has it; contribution(rank, i) is a rank's value at place i.
template <class Contribution>
Tensor sum_on_ranks(int n, std::int64_t count, Collective collective, const GroupOptions& options,
                    Contribution contribution) {
  Tensor result = empty({count});
  run_ranks(
      n,
      [&](Communicator& comm) {
        const Tensor x = testing::make_tensor(
            DType::float32, count, [&](std::int64_t i) { return contribution(comm.rank(), i); });
        if (collective == Collective::all_reduce) comm.all_reduce(x);
        if (collective == Collective::reduce) comm.reduce(x);
        if (collective == Collective::reduce_scatter) {
          const Tensor part = empty({count / n});
          comm.reduce_scatter(part, x);
          comm.all_gather(x, part);
        }
        if (comm.rank() == 0) result = x;
      },
      options);
  return result;
}

TEST(ThreadAlgorithmsTest, AllRanksHoldIdenticalBits) {
  for (const std::string& algorithm : algorithm_names(Collective::all_reduce))
    for (int n = 2; n <= kMaxRanks; ++n)
      for (DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
        std::vector<Tensor> results(n);
        run_ranks(n,
                  [&](Communicator& comm) {
                    testing::Random random(100 + comm.rank());
                    const Tensor x = random.tensor({1007}, dtype);
                    comm.all_reduce(x, ReduceOp::mean);
                    results[comm.rank()] = x;
                  },
                  {.all_reduce = algorithm, .segments = 2});
        for (int r = 1; r < n; ++r) expect_same_bits(results[r], results[0]);
      }
}

TEST(ThreadAlgorithmsTest, CanonicalBitsAreTheSerialSumsHoweverTheBufferIsCut) {
  for (int n : {3, 5, 8})
    for (std::int64_t count : {1, 100, 331}) {
      const Tensor wanted = testing::make_tensor(
          DType::float32, count, [&](std::int64_t i) { return canonical_sum(0, n, i); });
      for (const char* algorithm : {"two_shot", "one_shot", "chain"})
        for (int segments : {1, 3, 7})
          expect_same_bits(sum_on_ranks(n, count, Collective::all_reduce,
                                        {.all_reduce = algorithm, .segments = segments}, term),
                           wanted);
      expect_same_bits(sum_on_ranks(n, count, Collective::reduce, {.reduce = "direct"}, term),
                       wanted);
    }
}

// Eight leaves, shared by 1, 2, 4 or 8 ranks. Each rank first adds its own leaves in pairs of
// pairs.
TEST(ThreadAlgorithmsTest, TreeBitsDoNotDependOnHowManyRanksShareTheLeaves) {
  const int leaves = 8;
  const std::int64_t count = 88;
  const Tensor wanted = testing::make_tensor(
      DType::float32, count, [&](std::int64_t i) { return tree_sum(0, leaves, i); });
  for (int n : {1, 2, 4, 8}) {
    const auto share = [&](int rank, std::int64_t i) {
      return tree_sum(rank * leaves / n, (rank + 1) * leaves / n, i);
    };
    expect_same_bits(
        sum_on_ranks(n, count, Collective::all_reduce, {.all_reduce = "halving_doubling"}, share),
        wanted);
    expect_same_bits(
        sum_on_ranks(n, count, Collective::reduce_scatter, {.reduce_scatter = "halving"}, share),
        wanted);
    expect_same_bits(sum_on_ranks(n, count, Collective::reduce, {.reduce = "binomial"}, share),
                     wanted);
  }
  // The test can distinguish orders: the ring's order gives other bits.
  const Tensor ring = sum_on_ranks(8, count, Collective::all_reduce, {.all_reduce = "ring"}, term);
  EXPECT_NE(std::memcmp(ring.raw_data(), wanted.raw_data(), count * sizeof(float)), 0);
}

// --- Planners ---

TEST(ThreadAlgorithmsTest, FunctionsGetTheRootAndTheSegments) {
  GroupOptions options;
  options.segments = 3;
  options.all_reduce = chain_all_reduce;
  options.broadcast = chain_broadcast;
  options.reduce = direct_reduce;
  int segments_seen = 0, root_seen = 0;
  options.reduce_scatter = direct_reduce_scatter;
  run_ranks(
      3,
      [](Communicator& comm) {
        for (Collective collective : kAllCollectives)
          expect_exact(comm, {collective, DType::float32, ReduceOp::sum, 2, 10});
      },
      options);
  options.broadcast = [&](int n, const PlanOptions& plan) {
    segments_seen = plan.segments;
    root_seen = plan.root;
    return chain_broadcast(n, plan.root, plan.segments);
  };
  run_ranks(
      2, [](Communicator& comm) { comm.broadcast(ones({4}), 1); }, options);
  EXPECT_EQ(segments_seen, 3);
  EXPECT_EQ(root_seen, 1);
}

CollectivePlan reduce_to_zero_then_copy(int n, int segments) {
  CollectivePlan plan = empty_plan(Collective::all_reduce, "mine", n, segments);
  std::vector<int> everybody;
  for (int r = 0; r < n; ++r) everybody.push_back(r);
  for (int c = 0; c < segments; ++c) {
    for (int r = 1; r < n; ++r) plan.send(c, r, c, 0);
    plan.recv_reduce(c, 0, c, everybody);
    for (int r = 1; r < n; ++r) plan.send(c, 0, c, r);
    // A sum of one term is a copy, which a mean must not divide again.
    for (int r = 1; r < n; ++r) plan.recv_reduce(c, r, c, {0});
  }
  return plan;
}

TEST(ThreadAlgorithmsTest, RunsAPlanOfTheUser) {
  for (int n = 1; n <= kMaxRanks; ++n)
    run_ranks(n,
              [&](Communicator& comm) {
                for (ReduceOp op : kAllOps)
                  for (std::int64_t count : {0, 1, 2, 31})
                    expect_exact(comm, {Collective::all_reduce, DType::float64, op, 0, count});
              },
              {.all_reduce = reduce_to_zero_then_copy, .segments = 2});
}

// Rank 0's message to rank 2 goes through rank 1, which also keeps a copy of the relayed part.
CollectivePlan relay(int n) {
  CollectivePlan plan = empty_plan(Collective::all_to_all, "relay", n, n * n);
  const auto message = [&](int slot, int from, int to, int chunk) {
    plan.send(slot, from, chunk, to);
    plan.recv(slot, to, chunk, from);
  };
  message(0, 0, 1, 1);
  message(1, 0, 1, 2);
  plan.stage(2, 1, 2);
  plan.send_staged(2, 1, 2, 2);
  plan.recv(2, 2, 2, 1);
  message(3, 1, 2, 5);
  message(4, 1, 0, 3);
  message(5, 2, 0, 6);
  message(6, 2, 1, 7);
  message(7, 1, 2, 7);  // back again: rank 2's input must not be written
  return plan;
}

TEST(ThreadAlgorithmsTest, AnAllToAllMayRelay) {
  run_ranks(3,
            [](Communicator& comm) {
              for (DType dtype : kAllDTypes)
                for (std::int64_t count : {0, 1, 13})
                  expect_exact(comm, {Collective::all_to_all, dtype, ReduceOp::max, 0, count});
            },
            {.all_to_all = relay});
}

// Rank 0 stages x0 + x2, continues to add, and then sends the copy.
CollectivePlan late_copy(int n, int root) {
  CollectivePlan plan = empty_rooted_plan(Collective::reduce, "late copy", n, root);
  plan.send(0, 2, 0, 0);
  plan.send(0, 1, 0, 0);
  plan.recv_reduce(0, 0, 0, {0, 2});
  plan.stage(1, 0, 0);
  plan.recv_reduce(1, 0, 0, {0, 1});
  plan.send_staged(2, 0, 0, 2);
  plan.recv(2, 2, 0, 0);
  plan.send(3, 2, 0, 1);
  plan.recv_reduce(3, 1, 0, {2, 1});
  return plan;
}

TEST(ThreadAlgorithmsTest, ACopyIsSentAsItWasStaged) {
  run_ranks(3,
            [](Communicator& comm) {
              for (ReduceOp op : kAllOps)
                expect_exact(comm, {Collective::reduce, DType::float32, op, 1, 5});
            },
            {.reduce = late_copy});
}

// With one element, chunk 1 is empty. Its message still tells rank 0 that rank 1 has read rank 0's
// chunk 0, which rank 2's chunk then replaces.
CollectivePlan word_by_an_empty_chunk(int n, int root) {
  CollectivePlan plan = empty_rooted_plan(Collective::reduce, "word", n, root);
  plan.num_chunks = 2;
  for (int r : {0, 2}) {
    plan.send(0, r, 0, 1);
    plan.send(1, r, 1, 1);
  }
  plan.recv_reduce(0, 1, 0, {0, 1, 2});
  plan.recv_reduce(1, 1, 1, {0, 1, 2});
  plan.send(2, 1, 1, 0);
  plan.recv(2, 0, 1, 1);
  plan.send(3, 2, 0, 0);
  plan.recv(3, 0, 0, 2);
  return plan;
}

TEST(ThreadAlgorithmsTest, AnEmptyMessageStillReportsARead) {
  run_ranks(3,
            [](Communicator& comm) {
              for (int k = 0; k < 3000 && !::testing::Test::HasFailure(); ++k)
                expect_exact(comm, {Collective::reduce, DType::int64, ReduceOp::sum, 1, 1, k});
            },
            {.reduce = word_by_an_empty_chunk});
}

TEST(ThreadAlgorithmsTest, RefusesAPlanThatIsNotProved) {
  const auto broken = [](int n, int segments) {
    CollectivePlan plan = reduce_to_zero_then_copy(n, segments);
    plan.steps.pop_back();
    return plan;
  };
  expect_throws<ValueError>(
      [&] {
        run_ranks(2, [](Communicator& comm) { comm.all_reduce(ones({4})); },
                  {.all_reduce = broken});
      },
      "the plan 'mine' must be proved; got unmatched: step 0, rank 0 send chunk 0 -> 1");
}

TEST(ThreadAlgorithmsTest, RefusesAPlanForOtherRanksOrAnotherRoot) {
  expect_throws<ValueError>(
      [] {
        run_ranks(2, [](Communicator& comm) { comm.all_reduce(ones({4})); },
                  {.all_reduce = [](int, int segments) { return chain_all_reduce(3, segments); }});
      },
      "the plan must be for all_reduce, 2 ranks, root 0; got all_reduce, 3 ranks, root 0");
  expect_throws<ValueError>(
      [] {
        run_ranks(2, [](Communicator& comm) { comm.broadcast(ones({4}), 1); },
                  {.broadcast = [](int n) { return direct_broadcast(n, 0); }});
      },
      "the plan must be for broadcast, 2 ranks, root 1; got broadcast, 2 ranks, root 0");
}

TEST(ThreadAlgorithmsTest, RefusesNamesThatItDoesNotKnow) {
  const auto comms = make_thread_group(2, {.broadcast = "ring"});
  expect_throws<ValueError>(
      [&] { comms[0]->broadcast(ones({4})); },
      "broadcast: the algorithm must be one of direct, binomial, chain, leaders; got 'ring'");
}

TEST(ThreadAlgorithmsTest, RefusesPlansOfTooManyChunks) {
  const auto comms = make_thread_group(2, options_with(two_shot_all_reduce(2, 2049)));
  expect_throws<ValueError>([&] { comms[0]->all_reduce(zeros({5000})); },
                            "all_reduce: a plan must have at most 4096 chunks; got 4098 for 2");
}

// A plan has a chunk for each pair of ranks, and there may be 256 of them.
TEST(ThreadAlgorithmsTest, AllToAllWorksForEveryNumberOfRanks) {
  for (const int n : {65, 128, ringrad::kMaxRanks})
    run_ranks(n, [n](Communicator& comm) {
      const Tensor in = empty({n, 2}, {.dtype = DType::int32}),
                   out = zeros({n, 2}, {.dtype = DType::int32});
      for (int to = 0; to < n; ++to)
        for (int i = 0; i < 2; ++i)
          in.data<std::int32_t>()[2 * to + i] = 1000 * comm.rank() + 2 * to + i;
      comm.all_to_all(out, in);
      int num_wrong = 0;
      for (int from = 0; from < n; ++from)
        for (int i = 0; i < 2; ++i)
          num_wrong += out.data<std::int32_t>()[2 * from + i] != 1000 * from + 2 * comm.rank() + i;
      EXPECT_EQ(num_wrong, 0) << "on rank " << comm.rank() << " of " << n;
    });
}

}  // namespace
}  // namespace ringrad
