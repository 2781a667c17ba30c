// Groups made from groups: split() into smaller groups, overlapping and nested, and shrink() to the
// remaining ranks.

#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "ringrad/parallel/comm/host/ranks.h"
#include "ringrad/tests/parallel/comm/checked_collectives.h"
#include "ringrad/tests/parallel/comm/patience.h"

namespace ringrad {
namespace {

using testing::expect_exact;
using testing::expect_throws;

constexpr Collective kAll[] = {Collective::all_reduce, Collective::reduce_scatter,
                               Collective::all_gather, Collective::broadcast,
                               Collective::reduce,     Collective::all_to_all};

void expect_all_exact(Communicator& comm) {
  for (const Collective collective : kAll)
    for (const std::int64_t count : {1, 1000})
      expect_exact(comm, {collective, DType::float32, ReduceOp::sum, comm.world_size() - 1, count});
}

TEST(SubgroupTest, SplitsByColorInTheOrderOfKeyThenRank) {
  for (int n = 1; n <= 8; ++n)
    run_ranks(n, [n](Communicator& comm) {
      const int rank = comm.rank();
      // Odd ranks in reverse, even ones in order.
      const auto part = comm.split(rank % 2, rank % 2 == 1 ? -rank : 7);
      ASSERT_NE(part, nullptr);
      const int size = rank % 2 == 1 ? n / 2 : (n + 1) / 2;
      EXPECT_EQ(part->world_size(), size);
      EXPECT_EQ(part->rank(), rank % 2 == 1 ? size - 1 - rank / 2 : rank / 2);
      expect_all_exact(*part);
      expect_all_exact(comm);  // the whole group still works
    });
}

TEST(SubgroupTest, ANegativeColorMeansNoGroup) {
  run_ranks(4, [](Communicator& comm) {
    const auto part = comm.split(comm.rank() == 2 ? -1 : 5);
    EXPECT_EQ(part == nullptr, comm.rank() == 2);
    if (part) expect_all_exact(*part);
    comm.barrier();
  });
}

// Rows and columns of a grid: every rank is in two groups, whose calls come in any order.
TEST(SubgroupTest, OverlappingGroupsDoNotMix) {
  run_ranks(6, [](Communicator& comm) {
    const int row_number = comm.rank() / 3, column_number = comm.rank() % 3;
    const auto row = comm.split(row_number), column = comm.split(column_number);
    for (int round = 0; round < 20; ++round) {
      expect_all_exact(round % 2 == row_number ? *row : *column);
      expect_all_exact(round % 2 == row_number ? *column : *row);
    }
  });
}

TEST(SubgroupTest, GroupsOfGroupsOutliveThem) {
  run_ranks(8, [](Communicator& comm) {
    std::unique_ptr<Communicator> quarter;
    {
      const auto half = comm.split(comm.rank() / 4);
      quarter = half->split(half->rank() / 2);
    }
    EXPECT_EQ(quarter->world_size(), 2);
    expect_all_exact(*quarter);
  });
}

TEST(SubgroupTest, MessagesStayInTheirGroup) {
  run_ranks(2, [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    comm.send(full({1}, 10), peer);
    const auto part = comm.split(0);
    part->send(full({1}, 20), peer);
    const Tensor x = empty({1});
    part->recv(x, peer);
    EXPECT_EQ(x.item<float>(), 20);
    comm.recv(x, peer);
    EXPECT_EQ(x.item<float>(), 10);
  });
}

TEST(SubgroupTest, AFailureStaysInItsGroup) {
  run_ranks(4, [](Communicator& comm) {
    const auto part = comm.split(comm.rank() / 2);
    if (comm.rank() == 1) part->abort("enough");
    if (comm.rank() < 2) {
      EXPECT_THROW(part->barrier(), CollectiveError);
      EXPECT_EQ(part->failed_rank(), 1);
    } else {
      expect_all_exact(*part);
    }
    expect_all_exact(comm);
  });
}

// --- shrink ---

TEST(SubgroupTest, SurvivorsGoOn) {
  for (const int n : {2, 4, 8})
    for (const int culprit : {0, n - 1})
      run_ranks(n, [&](Communicator& comm) {
        if (comm.rank() == culprit) return comm.abort("enough");
        EXPECT_THROW(comm.barrier(), CollectiveError);
        const auto rest = comm.shrink();
        EXPECT_EQ(rest->world_size(), n - 1);
        EXPECT_EQ(rest->rank(), comm.rank() - (comm.rank() > culprit));
        expect_all_exact(*rest);
        if (n == 2) return;
        // An abort ends calls that have not returned, so the other ranks report when theirs have.
        const Tensor token = ones({1});
        if (rest->rank() == 0) {
          for (int r = 1; r < n - 1; ++r) rest->recv(token, r);
          return rest->abort("again");
        }
        rest->send(token, 0);
        EXPECT_THROW(rest->barrier(), CollectiveError);
        expect_all_exact(*rest->shrink());
      });
}

TEST(SubgroupTest, ShrinkWaitsForTheDeadlineAndNoLonger) {
  std::latch both_have_gone_on(2);
  run_ranks(3,
            [&](Communicator& comm) {
              if (comm.rank() == 2) {
                comm.abort("enough");
                both_have_gone_on.wait();
                for (int call = 0; call < 2; ++call)  // a call that failed does not change the next
                  expect_throws<CollectiveError>(
                      [&] { comm.shrink(); },
                      concat("shrink: ranks must come within ", testing::kShortDeadline.count(),
                             " s; rank 2 was late"));
                return;
              }
              EXPECT_THROW(comm.barrier(), CollectiveError);
              const auto rest = comm.shrink();
              EXPECT_EQ(rest->world_size(), 2);
              expect_all_exact(*rest);
              both_have_gone_on.count_down();
            },
            {.deadline = testing::kShortDeadline});
}

TEST(SubgroupTest, AGroupShrinksOnce) {
  run_ranks(3, [](Communicator& comm) {
    if (comm.rank() == 1) return comm.abort("enough");
    EXPECT_THROW(comm.barrier(), CollectiveError);
    const auto rest = comm.shrink();
    expect_throws<CollectiveError>([&] { comm.shrink(); }, "shrink: a group shrinks once");
    expect_all_exact(*rest);
  });
}

TEST(SubgroupTest, AWholeGroupDoesNotShrink) {
  run_ranks(2, [](Communicator& comm) {
    expect_throws<CollectiveError>([&] { comm.shrink(); }, "the group must have failed");
    comm.barrier();
  });
}

}  // namespace
}  // namespace ringrad
