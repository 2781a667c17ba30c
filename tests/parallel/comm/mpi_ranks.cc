// What each rank does in the tests of the MPI backend; mpi_group_test.py starts them. All ranks run the same tests.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "parallel/comm/mpi_group.h"
#include "tests/parallel/comm/backend_suite.h"

namespace ringrad {
namespace {

using std::chrono::milliseconds;
using testing::error_of;
using testing::expect_contains;
using testing::expect_throws;

TEST(MpiGroupTest, DoesWhatEveryBackendDoes) {
  const auto comm = join_mpi_group();
  testing::run_backend_suite(*comm);
}

TEST(MpiGroupTest, AddsInRankOrder) {
  const auto comm = join_mpi_group();
  testing::expect_canonical_bits(*comm);
}

TEST(MpiGroupTest, CutsWhatIsTooLarge) {
  EngineOptions options;
  options.largest_piece = 300;
  const auto comm = join_mpi_group(options);
  for (const Collective collective : kAllCollectives)
    for (const DType dtype : {DType::float64, DType::float16, DType::bool_})
      testing::expect_exact(*comm, {collective, dtype, ReduceOp::max, 0, 101});
  testing::expect_messages(*comm);
}

TEST(MpiGroupTest, ALateRankIsNamed) {
  EngineOptions options;
  options.deadline = milliseconds(300);
  const auto comm = join_mpi_group(options);
  if (comm->world_size() == 1) return;
  testing::expect_late_rank_named(*comm, 0.3);
  expect_throws<CollectiveError>([&] { comm->shrink(); },
                                 "this backend cannot go on with fewer ranks");
  testing::expect_sum_works(*join_mpi_group());  // a new group does
}

TEST(MpiGroupTest, ADeadlineMayBeForever) {
  EngineOptions options;
  options.deadline = std::chrono::nanoseconds::max();
  testing::expect_sum_works(*join_mpi_group(options));
}

// For the script, which asks for them by name: the rank that stops does not come back.

TEST(MpiGroupTest, DISABLED_AStoppedRankIsNamedByTheOthers) {
  EngineOptions options;
  options.deadline = milliseconds(400);
  const auto comm = join_mpi_group(options);
  if (comm->rank() == 1) raise(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of([&] { comm->all_reduce(ones({8})); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1400));
  expect_contains(
      error,
      "every rank must take part; got no sign of life from rank 1, which died or was stopped");
  EXPECT_EQ(comm->failed_rank(), 1);
  if (!HasFailure()) std::fprintf(stderr, "rank %d knows\n", comm->rank());
}

TEST(MpiGroupTest, DISABLED_ARankIsKilled) {
  const auto comm = join_mpi_group();
  if (comm->rank() == 1) raise(SIGKILL);
  comm->barrier();
}

}  // namespace
}  // namespace ringrad
