// Plans that a group chooses for itself: by the cost of its links, within its order of addition,
// and alike on all ranks.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "ringrad/parallel/comm/host/process_group.h"
#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/parallel/comm/memory/program_cache.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/halving_plan.h"
#include "ringrad/tests/parallel/comm/backend_suite.h"
#include "ringrad/tests/parallel/comm/processes.h"
#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using testing::Processes;

constexpr CostModel kSlowMessages{
    .within_host = {1e-3, 1e-10}, .gamma_s_per_byte = 1e-10, .wiring = Wiring::reads};
constexpr CostModel kSlowBytes{
    .within_host = {1e-9, 1e-8}, .gamma_s_per_byte = 1e-9, .wiring = Wiring::reads};

struct Cache : ProgramCache {
  Cache(int n, SumOrder order, const CostModel& links)
      : ProgramCache(n, {{Collective::all_reduce, nullptr}, {Collective::reduce, nullptr}}, order) {
    set_links(DeviceType::cpu, links);
  }
};

std::uint64_t chosen(ProgramCache& cache, int log_bytes, int segments = 1) {
  const ProgramKey key{Collective::all_reduce, segments, /*root=*/0, log_bytes};
  return cache.get(key, Where::current()).fingerprint;
}

std::uint64_t fingerprint(const CollectivePlan& plan) { return compile(plan).fingerprint; }

TEST(ChoiceTest, FewMessagesWhereMessagesAreSlowAndFewBytesWhereBytesAre) {
  for (const int n : {3, 4, 8}) {
    Cache slow_messages(n, SumOrder::canonical, kSlowMessages);
    Cache slow_bytes(n, SumOrder::canonical, kSlowBytes);
    const std::uint64_t one_shot = fingerprint(one_shot_all_reduce(n)),
                        two_shot = fingerprint(two_shot_all_reduce(n, 2));
    EXPECT_EQ(chosen(slow_messages, 18, 2), one_shot) << n;
    EXPECT_EQ(chosen(slow_messages, 30, 2), two_shot) << n;
    EXPECT_EQ(chosen(slow_bytes, 12, 2), two_shot) << n;
  }
}

// ringrad-info prints a row for each power of two.
TEST(ChoiceTest, ABufferIsComparedAtTheLeastPowerOfTwoThatHoldsIt) {
  EXPECT_EQ(log_bytes_of(0), 0);
  for (int k = 1; k <= 40; ++k) {
    const std::size_t power = std::size_t{1} << k;
    EXPECT_EQ(log_bytes_of(power), k);
    EXPECT_EQ(log_bytes_of(power - 1), k == 1 ? 0 : k) << power;
    EXPECT_EQ(log_bytes_of(power + 1), k + 1);
  }
}

TEST(ChoiceTest, TheOrderOfSumsIsKept) {
  for (const int n : {4, 8})
    for (const int log_bytes : {1, 10, 20, 30})
      for (const CostModel& links : {kSlowMessages, kSlowBytes}) {
        Cache tree(n, SumOrder::tree, links);
        const std::uint64_t plan = chosen(tree, log_bytes);
        EXPECT_TRUE(plan == fingerprint(halving_doubling_all_reduce(n))) << n << ' ' << log_bytes;
      }
  Cache none(6, SumOrder::tree, kSlowBytes);
  EXPECT_NO_THROW(none.get({Collective::reduce}, Where::current()));
}

TEST(ChoiceTest, BuffersWithTheSamePlanShareItsProgram) {
  Cache cache(4, SumOrder::canonical, kSlowBytes);
  const ProgramKey small{Collective::all_reduce, 1, 0, 20}, large{Collective::all_reduce, 1, 0, 25};
  EXPECT_EQ(&cache.get(small, Where::current()), &cache.get(large, Where::current()));
}

void expect_measured_alike(Communicator& comm) {
  const CostModel links = *comm.links();
  EXPECT_GT(links.within_host.alpha_s, 0);
  EXPECT_LT(links.within_host.alpha_s, 0.1);
  EXPECT_GT(links.within_host.beta_s_per_byte, 0);
  EXPECT_LT(links.within_host.beta_s_per_byte, 1e-5);
  const Tensor costs = empty({3}, {.dtype = DType::float64});
  costs.data<double>()[0] = links.within_host.alpha_s;
  costs.data<double>()[1] = links.within_host.beta_s_per_byte;
  costs.data<double>()[2] = links.gamma_s_per_byte;
  const Tensor most = testing::contiguous_copy(costs);
  comm.all_reduce(most, ReduceOp::max);
  EXPECT_EQ(most.to_vector<double>(), costs.to_vector<double>());
}

TEST(ChoiceTest, RanksMeasureTheirLinksTogether) {
  for (const int n : {2, 3, 4}) run_ranks(n, expect_measured_alike);
  Processes processes(3, ProcessGroupOptions(), [](Communicator& comm) -> std::string {
    expect_measured_alike(comm);
    return ::testing::Test::HasFailure() ? "wrong links" : "";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

TEST(ChoiceTest, OneRankHasNoLinksAndGivenOnesAreTaken) {
  run_ranks(1, [](Communicator& comm) { EXPECT_FALSE(comm.links()); });
  run_ranks(2,
            [](Communicator& comm) {
              EXPECT_EQ(comm.links()->within_host.alpha_s, kSlowBytes.within_host.alpha_s);
            },
            {.links = kSlowBytes});
}

TEST(ChoiceTest, LinksAreACallThatAllMake) {
  run_ranks(2, [](Communicator& comm) {
    const Tensor x = ones({4});
    for (int i = 0; i < 4; ++i)
      comm.all_reduce(x);  // eager messages that could be mistaken for the measurement's
    const auto call = [&] { comm.rank() == 0 ? comm.barrier() : static_cast<void>(comm.links()); };
    expect_throws<CollectiveError>(
        call, "must make the same call; got barrier() on rank 0 and links() on rank 1");
  });
}

// 128 KiB are too little for a measurement, but enough for the call.
TEST(ChoiceTest, MeasuringNeedsNoMemoryThatIsNotThere) {
  ProcessGroupOptions options;
  options.heap_bytes = 128 << 10;
  Processes processes(2, options, [](Communicator& comm) -> std::string {
    const Tensor x = comm.empty_shared({5000});
    for (int i = 0; i < 5000; ++i) x.data<float>()[i] = static_cast<float>(comm.rank() + i);
    comm.broadcast(x, 1);
    return x.data<float>()[4999] == 5000 ? "" : "wrong values";
  });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

// For every size, from an eager message to many segments, the bits equal those of one plan in
// canonical order.
TEST(ChoiceTest, BitsDoNotDependOnTheChoice) {
  for (const int n : {3, 4})
    for (const DType dtype : {DType::float32, DType::float16})
      for (const std::int64_t count : {1, 7, 128, 255, 256, 257, 511, 513, 5000, 100'000}) {
        const auto sums = [&](const GroupOptions& options) {
          std::vector<Tensor> results(static_cast<std::size_t>(n));
          run_ranks(
              n,
              [&](Communicator& comm) {
                const Tensor x = testing::odd_values(dtype, comm.rank(), count);
                comm.all_reduce(x, ReduceOp::mean);
                results[static_cast<std::size_t>(comm.rank())] = x;
              },
              options);
          return results;
        };
        const auto chosen = sums({}), chained = sums({.all_reduce = "chain", .segments = 3});
        for (const Tensor& x : chosen) testing::expect_same_bits(x, chained[0]);
      }
}

// In a hundred runs, ranks are late in turn, buffers are cut differently, and plans differ. No bit
// may change.
TEST(ChoiceTest, BitsDoNotDependOnDelaysOrCuts) {
  constexpr std::int64_t kCount = 3000;
  const char* const plans[] = {nullptr, "two_shot", "one_shot", "chain"};
  for (const int n : {2, 4}) {
    Tensor first;
    for (int run = 0; run < 50; ++run) {
      GroupOptions options;
      options.segments = run % 7;
      if (const char* const plan = plans[run % 4]) options.all_reduce = plan;
      run_ranks(
          n,
          [&](Communicator& comm) {
            testing::Random random(static_cast<std::uint64_t>(run * n + comm.rank()));
            const Tensor x = testing::odd_values(DType::float32, comm.rank(), kCount);
            std::this_thread::sleep_for(std::chrono::microseconds(random.integer(0, 500)));
            comm.all_reduce(x);
            if (comm.rank() > 0) return;
            if (run == 0) first = x;
            testing::expect_same_bits(x, first);
          },
          options);
    }
  }
}

TEST(ChoiceTest, RanksThatFollowDifferentPlansAreNamed) {
  const testing::Join join = [](Store& store, int rank, int size) {
    ProcessGroupOptions options;
    options.all_reduce = rank == 1 ? "chain" : "two_shot";
    return join_process_group(store, "test", rank, size, options);
  };
  Processes processes(3, join, [](Communicator& comm) -> std::string {
    const Tensor x = comm.empty_shared({5000});
    expect_throws<CollectiveError>([&] { comm.all_reduce(x); },
                                   "all ranks must make the same call; got");
    expect_throws<CollectiveError>(
        [&] { comm.all_reduce(x); },
        " on ranks 0, 2 and all_reduce(sum, float32, 5000 elements) by plan ");
    return ::testing::Test::HasFailure() ? "not named" : "";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

}  // namespace
}  // namespace ringrad
