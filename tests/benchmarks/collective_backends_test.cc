#include "ringrad/benchmarks/collective_backends.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "ringrad/benchmarks/collective_report.h"
#include "ringrad/tests/parallel/comm/gpu/use_mock_nccl.h"

namespace ringrad::bench {
namespace {

std::unique_ptr<SharedCase> case_of(const std::string& backend, Routine routine) {
  auto shared = std::make_unique<SharedCase>();
  set_name(shared->one.backend, backend);
  shared->one.routine = routine;
  shared->one.set_size(1024);
  shared->one.samples = 1;
  shared->one.pin = false;
  return shared;
}

// The program itself cannot be tested with NCCL, because only a test can give the simulated GPUs to
// the mock.
TEST(CollectiveBackendsTest, NcclIsMeasuredAndRight) {
  testing::use_mock_nccl();
  setenv("RINGRAD_NCCL", testing::kMockNcclFile, 1);
  for (int i = 0; i < kNumRoutines; ++i) {
    const auto shared = case_of("nccl", static_cast<Routine>(i));
    run_part(*shared, -1);
    const Row row{shared->one, {shared->measured}};
    EXPECT_TRUE(row.column(false) || row.column(true)) << name(shared->one.routine);
    EXPECT_EQ(row.best_column().wrong, 0) << name(shared->one.routine);
    EXPECT_GT(row.best_column().time.us, 0) << name(shared->one.routine);
  }
}

TEST(CollectiveBackendsTest, ARankThatFailsEndsTheOthersAndIsNamed) {
  const auto shared = case_of("gpus", Routine::all_reduce);
  shared->one.gpus = 99;
  EXPECT_THROW(run_part(*shared, -1), DeviceError);
  EXPECT_NE(shared->failure().find("there must be 99 GPUs"), std::string::npos);
  EXPECT_THROW(shared->board.barrier(2), std::runtime_error);
}

Row row_of(const std::string& backend, const std::string& algorithm, std::vector<double> times_us,
           std::int64_t bytes = 64 << 20, int ranks = 2) {
  Row row;
  set_name(row.one.backend, backend);
  set_name(row.one.algorithm, algorithm);
  row.one.ranks = ranks;
  row.one.set_size(bytes);
  for (const double us : times_us) {
    Measured measured;
    measured.in_place = {.has_time = true, .time = {.us = us}, .wrong = 0};
    row.rounds.push_back(measured);
  }
  return row;
}

const Check& check_named(const SizeSummary& summary, std::string_view wanted) {
  for (const Check& check : summary.checks)
    if (check.name == wanted) return check;
  throw std::runtime_error("no check " + std::string(wanted));
}

TEST(CollectiveReportTest, ARatioIsTheMedianOverRounds) {
  // In the second round the machine was three times slower for both backends.
  const auto summaries = summarize(
      {row_of("processes", "default", {10, 30, 10}), row_of("openmpi", "default", {20, 90, 26})});
  ASSERT_EQ(summaries.size(), 1U);
  const Check& check = check_named(summaries[0], "openmpi/ours");
  EXPECT_DOUBLE_EQ(check.ratio, 2.6);
  EXPECT_EQ(check.goal, 2.5);
  EXPECT_FALSE(check.is_missed());
}

TEST(CollectiveReportTest, RoundsThatWereDisturbedDoNotCount) {
  Row ours = row_of("processes", "default", {10, 10, 10}),
      theirs = row_of("openmpi", "default", {20, 90, 80});
  ours.rounds[1].in_place.time.busy = theirs.rounds[2].in_place.time.busy = true;
  EXPECT_DOUBLE_EQ(check_named(summarize({ours, theirs})[0], "openmpi/ours").ratio, 2);
  EXPECT_DOUBLE_EQ(theirs.column(true)->time.us, 55);
  EXPECT_FALSE(theirs.column(true)->time.busy);
  for (Measured& round : theirs.rounds) round.in_place.time.busy = true;
  EXPECT_DOUBLE_EQ(theirs.column(true)->time.us, 80);
  EXPECT_TRUE(theirs.column(true)->time.busy);
}

TEST(CollectiveReportTest, TheFastestOfGlooCountsAndGoalsMayBeMissed) {
  const auto summaries =
      summarize({row_of("processes", "default", {10}), row_of("threads", "default", {12}),
                 row_of("openmpi", "default", {30}), row_of("gloo_itself", "ring", {40}),
                 row_of("gloo_itself", "bcube", {9}), row_of("memcpy", "default", {6})});
  EXPECT_TRUE(check_named(summaries[0], "best peer/ours").is_missed());
  EXPECT_DOUBLE_EQ(check_named(summaries[0], "best peer/ours").ratio, 0.9);
  EXPECT_TRUE(check_named(summaries[0], "processes/threads").is_missed());
  EXPECT_TRUE(check_named(summaries[0], "memcpy/ours").is_missed());
}

TEST(CollectiveReportTest, BelowFourKibibytesFifteenPercentAreForgiven) {
  for (const auto& [bytes, is_missed] : {std::pair(1024, false), std::pair(4096, true)}) {
    const auto summaries = summarize(
        {row_of("processes", "default", {11}, bytes), row_of("openmpi", "default", {10}, bytes)});
    EXPECT_EQ(check_named(summaries[0], "best peer/ours").is_missed(), is_missed) << bytes;
    EXPECT_FALSE(check_named(summaries[0], "openmpi/ours").goal);
  }
}

TEST(CollectiveReportTest, ARingOnOneGpuIsComparedWithTheBytesThatItMoves) {
  constexpr std::int64_t kBytes = 256 << 20;
  Row ring = row_of("gpus", "ring", {40}, kBytes, 8);
  Row copy = row_of("device_copy", "default", {10}, kBytes, 8);
  ring.one.transfers = DeviceTransfers::copy_engines;
  // 7 parts of 8, each brought (2), summed (3) and copied (2), where a copy reads and writes one
  // (2).
  EXPECT_DOUBLE_EQ(check_named(summarize({ring, copy})[0], "device copies/ring").ratio,
                   7.0 / 8 * 7 / 2 * 10 / 40);
  EXPECT_TRUE(check_named(summarize({ring, copy})[0], "device copies/ring").is_missed());
  ring.one.transfers = DeviceTransfers::kernels;
  EXPECT_DOUBLE_EQ(check_named(summarize({ring, copy})[0], "device copies/ring").ratio,
                   7.0 / 8 * 5 / 2 * 10 / 40);
  ring.rounds[0].is_simulated = true;
  EXPECT_FALSE(check_named(summarize({ring, copy})[0], "device copies/ring").goal);
}

}  // namespace
}  // namespace ringrad::bench
