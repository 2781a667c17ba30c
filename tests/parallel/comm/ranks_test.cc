#include "ringrad/parallel/comm/host/ranks.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <unordered_set>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;

TEST(RanksTest, EachRankRunsOnceOnItsOwnThread) {
  for (int n : {1, 2, 7}) {
    std::mutex mutex;
    std::set<int> ranks;
    std::unordered_set<std::thread::id> threads;
    run_ranks(n, [&](Communicator& comm) {
      EXPECT_EQ(comm.world_size(), n);
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(ranks.insert(comm.rank()).second);
      threads.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(static_cast<int>(ranks.size()), n);
    EXPECT_EQ(static_cast<int>(threads.size()), n);
    EXPECT_EQ(*ranks.begin(), 0);
    EXPECT_EQ(*ranks.rbegin(), n - 1);
  }
}

TEST(RanksTest, RanksShareOutTheCallersTeam) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(5);
  for (const auto& [n, team] : {std::pair{1, 5}, {2, 2}, {8, 1}})
    run_ranks(n, [team = team](Communicator&) { EXPECT_EQ(omp_get_max_threads(), team); });
  EXPECT_EQ(omp_get_max_threads(), 5);
  omp_set_num_threads(before);
}

TEST(RanksTest, ThrowsForNumbersOfRanksThatCannotBe) {
  for (int n : {0, -3, 257, 1 << 30})
    expect_throws<ValueError>([&] { run_ranks(n, [](Communicator&) {}); },
                              concat("world_size must be in [1, 256]; got ", n));
}

TEST(RanksTest, NamesTheRankOfAStandardExceptionAndKeepsTheOriginal) {
  try {
    run_ranks(3, [](Communicator& comm) {
      if (comm.rank() == 2) throw std::out_of_range("beyond");
    });
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 14), "rank 2: beyond");
    EXPECT_THROW(std::rethrow_if_nested(e), std::out_of_range);
  }
}

TEST(RanksTest, NestsAnErrorOfTheUsersOwnType) {
  struct TooSmall : ShapeError {
    using ShapeError::ShapeError;
    int size = 3;
  };
  struct Unwell : Error {
    using Error::Error;
  };
  const auto thrown_by = []<class Own>(Own own) {
    return [own] {
      run_ranks(2, [&](Communicator& comm) {
        if (comm.rank() == 1) throw own;
        comm.barrier();
      });
    };
  };
  try {
    thrown_by(TooSmall("test: small", Where::current()))();
    FAIL() << "nothing thrown";
  } catch (const ShapeError& e) {
    EXPECT_EQ(e.message(), "rank 1: test: small");
    try {
      std::rethrow_if_nested(e);
      FAIL() << "nothing nested";
    } catch (const TooSmall& original) {
      EXPECT_EQ(original.size, 3);
    }
  }
  try {
    thrown_by(Unwell("test: unwell", Where::current()))();
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_THROW(std::rethrow_if_nested(e), Unwell);
  }
}

TEST(RanksTest, PassesOnWhatIsNoException) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& comm) {
                           if (comm.rank() == 0) throw 42;
                           comm.barrier();
                         }),
               int);
}

// Both ranks throw; rank 1 throws because rank 0 did. It must not matter that rank 1's error is of
// a user's own type.
TEST(RanksTest, RethrowsTheCauseAndNotAConsequenceInDisguise) {
  for (int repeat = 0; repeat < 20; ++repeat)
    expect_throws<IndexError>(
        [] {
          run_ranks(2, [](Communicator& comm) {
            if (comm.rank() == 0) throw IndexError("test: the cause", Where::current());
            try {
              comm.barrier();
            } catch (const CollectiveError&) {
              throw ValueError("test: the consequence", Where::current());
            }
          });
        },
        "rank 0: test: the cause");
}

TEST(RanksTest, AnErrorThatTheRankItselfCaughtStillFailsTheOthers) {
  expect_throws<CollectiveError>(
      [] {
        run_ranks(2, [](Communicator& comm) {
          if (comm.rank() == 0) return comm.abort("given up");
          comm.barrier();
        });
      },
      "rank 1: barrier() #1 on rank 1: the group must be whole; got a failure of rank 0: given up");
}

TEST(RanksTest, RunsNest) {
  run_ranks(2, [](Communicator& outer) {
    run_ranks(2, [&](Communicator& inner) {
      const Tensor x = ones({3});
      inner.all_reduce(x);
      testing::expect_close(x, {2, 2, 2});
    });
    outer.barrier();
  });
}

}  // namespace
}  // namespace ringrad
