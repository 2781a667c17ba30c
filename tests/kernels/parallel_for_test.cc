#include "ringrad/kernels/parallel_for.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "ringrad/tests/kernels/team.h"
#include "ringrad/tests/testing.h"

namespace ringrad::kernels {
namespace {

using ringrad::testing::Team;

TEST(ParallelForTest, VisitsEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 7})
    for (const std::int64_t n : {0, 1, 2, 5, 100, 1001}) {
      const Team team(threads);
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
      parallel_for(n, 3, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_LT(begin, end);
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& count : visits) EXPECT_EQ(count, 1);
    }
}

TEST(ParallelForTest, RunsSmallRangesOnTheCallingThread) {
  const Team team(4);
  int calls = 0;
  parallel_for(10, 10, [&](std::int64_t begin, std::int64_t end) {
    ++calls;
    EXPECT_FALSE(omp_in_parallel());
    EXPECT_EQ(end - begin, 10);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ParallelForTest, DoesNotNest) {
  const Team team(2);
  std::atomic<int> inner{0};
  parallel_for(2, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      parallel_for(100, 1, [&](std::int64_t, std::int64_t) { ++inner; });
  });
  EXPECT_EQ(inner, 2);  // once per outer index, in one piece
}

TEST(ParallelForTest, RethrowsWhatAPieceThrew) {
  const Team team(2);
  std::atomic<std::int64_t> visited{0};
  EXPECT_THROW(parallel_for(2, 1,
                            [&](std::int64_t begin, std::int64_t end) {
                              visited += end - begin;
                              if (end == 2) throw std::runtime_error("the last piece");
                            }),
               std::runtime_error);
  EXPECT_EQ(visited, 2);  // however many threads there were, all pieces ran
}

}  // namespace
}  // namespace ringrad::kernels
