// Compares predictions with published figures of real machines (docs/prediction.md). The error of
// each is stated, and asserted: it changes only together with the document.

#include <gtest/gtest.h>

#include <string>

#include "ringrad/parallel/plan/predict/collective_cost.h"
#include "ringrad/parallel/plan/predict/topology.h"

namespace ringrad {
namespace {

constexpr int kRanks = 8;
constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

void expect_error(double predicted, double published, double stated_percent) {
  EXPECT_NEAR(100 * (predicted / published - 1), stated_percent, 0.5)
      << "predicted " << predicted << ", published " << published;
}

CostModel eight_h100() { return named_topology("nvlink8", kRanks).links; }

// Data sheet of the A100 (80 GB, SXM4): NVLink 600 GB/s both ways, memory 2,039 GB/s; latency as
// for the H100.
CostModel eight_a100() {
  CostModel model = eight_h100();
  model.within_host.beta_s_per_byte = 1 / 300e9;
  model.gamma_s_per_byte = 3 / 2039e9;
  return model;
}

double best_us(double bytes, const CostModel& model) {
  return 1e6 * fastest_all_reduce(kRanks, bytes, model).seconds;
}
double best_gbps(double bytes, const CostModel& model) {
  const double seconds = fastest_all_reduce(kRanks, bytes, model).seconds;
  return bus_bandwidth(kRanks, bytes, seconds) / 1e9;
}

TEST(PublishedFiguresTest, LargeRingsOfH100AreWithinTwoPercent) {
  for (const double bytes : {kGiB, 4 * kGiB}) {
    const double seconds = all_reduce_seconds("ring", kRanks, bytes, eight_h100());
    expect_error(bus_bandwidth(kRanks, bytes, seconds) / 1e9, 370, 1);
  }
}

TEST(PublishedFiguresTest, LargeSumsOfA100AreWithinOnePercentAndMiddleOnesAreNot) {
  expect_error(best_gbps(kGiB, eight_a100()), 244, 0.7);
  expect_error(best_gbps(16 * kMiB, eight_a100()), 187, 27);
}

// A kernel's launch and its barriers are not in the model.
TEST(PublishedFiguresTest, SmallSumsArePredictedAtHalfOrLess) {
  expect_error(best_us(24 * kKiB, eight_h100()), 6.18, -59);
  expect_error(best_us(48 * kKiB, eight_h100()), 6.62, -53);
  expect_error(best_us(72 * kKiB, eight_h100()), 6.91, -47);
  expect_error(best_us(8 * kKiB, eight_a100()), 6.51, -65);
}

// NCCL's own model adds a latency per call to the latency of the hops.
TEST(PublishedFiguresTest, ARingsLatencyLacksNcclsPerCall) {
  struct Protocol {
    const char* name;
    double hop_us, published_us, error_percent;
  };
  for (const auto& [name, hop_us, published_us, error_percent] :
       {Protocol{"LL", 0.6, 15.0, -44}, Protocol{"LL128", 1.9, 40.6, -34.5},
        Protocol{"Simple", 3.4, 56.0, -15}}) {
    SCOPED_TRACE(name);
    const CostModel model{.within_host = {.alpha_s = hop_us * 1e-6}, .ranks_per_host = kRanks};
    expect_error(1e6 * all_reduce_seconds("ring", kRanks, 0, model), published_us, error_percent);
  }
}

}  // namespace
}  // namespace ringrad
