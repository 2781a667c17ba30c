#include "ringrad/parallel/comm/memory/program_words.h"

#include <gtest/gtest.h>

#include "ringrad/tests/parallel/plan/collective/every_plan.h"

namespace ringrad {
namespace {

// The programs without what only other ranks need.
PlanPrograms part_of(const PlanPrograms& programs, std::size_t rank) {
  PlanPrograms part = programs;
  for (std::size_t r = 0; r < part.ranks.size(); ++r) {
    if (r != rank) {
      part.ranks[r] = {};
      part.ranks[r].publications = programs.ranks[r].publications;
    }
  }
  return part;
}

TEST(ProgramWordsTest, EveryRankReadsItsProgram) {
  const auto expect_read = [](const CollectivePlan& plan) {
    const PlanPrograms programs = compile(plan);
    const std::vector<std::uint32_t> words = to_words(programs);
    for (std::size_t r = 0; r < programs.ranks.size(); ++r) {
      const PlanPrograms read = from_words(words.data(), static_cast<int>(r));
      EXPECT_EQ(to_words(read), to_words(part_of(programs, r))) << plan.algorithm << ", rank " << r;
      EXPECT_EQ(read.algorithm, plan.algorithm);
      EXPECT_EQ(read.fingerprint, programs.fingerprint);
      EXPECT_EQ(read.max_length, programs.max_length);
    }
  };
  for (const Collective collective : kAllCollectives)
    for (const int n : {1, 2, 3, 4, 6, 8}) for_every_plan(collective, n, expect_read);
}

}  // namespace
}  // namespace ringrad
