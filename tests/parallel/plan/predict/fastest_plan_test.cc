#include "ringrad/parallel/plan/predict/fastest_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ringrad {
namespace {

constexpr double kAlpha = 3e-6, kBytesPerSecond = 370e9;

const CostModel kSwitch{.within_host = {kAlpha, 1 / kBytesPerSecond}};

std::string fastest(int n, double bytes, const CostModel& model,
                    const std::vector<PlanCandidate>& candidates) {
  return fastest_plan(Collective::all_reduce, n, std::llround(bytes), model, candidates).algorithm;
}

// With these links the formula gives 740 KB for 4 ranks and 211 KB for 8, near the thresholds that
// libraries have found by measuring.
TEST(FastestPlanTest, OneShotIsOvertakenByTwoShotWhereTheFormulaSays) {
  const std::vector<PlanCandidate> shots = {{"one_shot", {}}, {"two_shot", {}}};
  for (int n : {3, 4, 8, 16}) {
    const double crossover = kAlpha * kBytesPerSecond * n / ((n - 1) * (n - 2));
    EXPECT_EQ(fastest(n, 0.999 * crossover, kSwitch, shots), "one_shot") << n;
    EXPECT_EQ(fastest(n, 1.001 * crossover, kSwitch, shots), "two_shot") << n;
  }
  for (double bytes : {1.0, 1e6, 1e9}) EXPECT_EQ(fastest(2, bytes, kSwitch, shots), "one_shot");
}

TEST(FastestPlanTest, LatencyDecidesForSmallBuffersAndBytesForLarge) {
  const std::vector<PlanCandidate> candidates = {
      {"ring", {}}, {"tree", {}}, {"halving_doubling", {}}};
  const CostModel wires{.within_host = {kAlpha, 1 / kBytesPerSecond}, .wiring = Wiring::wires};
  EXPECT_EQ(fastest(12, 8, kSwitch, candidates), "tree");  // 6 steps; halving-doubling 8
  EXPECT_EQ(fastest(16, 1e6, kSwitch, candidates), "halving_doubling");
  EXPECT_EQ(fastest(17, 1e9, kSwitch, candidates), "ring");  // folding would send S more
  EXPECT_EQ(fastest(17, 1e9, wires, {{"ring", {}}, {"chain", {.segments = 64}}}), "chain");
}

TEST(FastestPlanTest, SlowLinksBetweenHostsCallForAHierarchy) {
  CostModel model = kSwitch;
  model.between_hosts = {10 * kAlpha, 30 / kBytesPerSecond};
  model.ranks_per_host = 4;
  const auto candidates = plan_candidates(Collective::all_reduce, {.ranks_per_host = 4}, 8);
  EXPECT_EQ(fastest(12, 1e8, model, candidates), "hierarchical");
  // Halving-doubling stays inside hosts for as long if hosts and their ranks are powers of two.
  EXPECT_EQ(fastest(16, 1e8, model, candidates), "halving_doubling");
}

TEST(FastestPlanTest, OfEqualsTheFirstIsTaken) {
  const CostModel free;
  EXPECT_EQ(fastest(4, 100, free, {{"two_shot", {}}, {"ring", {}}}), "two_shot");
  EXPECT_EQ(fastest(4, 100, free, {{"ring", {}}, {"two_shot", {}}}), "ring");
}

TEST(FastestPlanTest, CandidatesAreAllAlgorithmsAndTheSegmentsTheyTake) {
  const auto candidates = plan_candidates(Collective::all_reduce, {.ranks_per_host = 2}, 8);
  for (const std::string& algorithm : algorithm_names(Collective::all_reduce)) {
    std::vector<int> segments;
    for (const PlanCandidate& candidate : candidates)
      if (candidate.algorithm == algorithm) {
        segments.push_back(candidate.options.segments);
        EXPECT_EQ(candidate.options.ranks_per_host, 2);
      }
    const auto num_chunks = [&](int count) {
      return make_plan(Collective::all_reduce, algorithm, 4, {.segments = count}).num_chunks;
    };
    const bool is_cut = num_chunks(2) > num_chunks(1);
    EXPECT_EQ(segments, is_cut ? std::vector<int>({1, 2, 4, 8}) : std::vector<int>{1}) << algorithm;
  }
}

TEST(FastestPlanTest, NoCandidateIsFasterThanTheOneChosen) {
  for (Collective collective : {Collective::all_reduce, Collective::broadcast, Collective::reduce})
    for (int n : {3, 8})
      for (std::int64_t bytes : {0, 1000, 1000000}) {
        const auto candidates = plan_candidates(collective, {.root = 1}, 8);
        const CollectivePlan chosen = fastest_plan(collective, n, bytes, kSwitch, candidates);
        for (const PlanCandidate& other : candidates)
          EXPECT_LE(predicted_seconds(chosen, bytes, kSwitch),
                    predicted_seconds(make_plan(collective, other.algorithm, n, other.options),
                                      bytes, kSwitch));
      }
}

TEST(FastestPlanTest, ThrowsWithoutCandidates) {
  EXPECT_THROW(fastest_plan(Collective::all_reduce, 2, 8, kSwitch, {}), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
