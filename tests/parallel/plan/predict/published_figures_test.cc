// Compares predictions with published figures of real machines (docs/prediction.md). The error of
// each is stated, and asserted: it changes only together with the document.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
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

// --- Whole sweeps over sizes ---
//
// published_all_reduces.csv holds what the sources in docs/prediction.md publish: seconds of an
// all_reduce of so many bytes. The error of a sweep is the geometric mean of the factors by which
// predictions are off, either way, minus 1.

struct Sweep {
  std::string machine;
  int ranks;
  double nvlink_gbps, network_gbps, memory_gbps;  // of a device, one way, by the data sheets
  double percent, percent_from_16_mib;            // as stated; < 0: none so large
};

double percent_of(double sum_of_logs, int count) {
  return count == 0 ? -1 : 100 * (std::exp(sum_of_logs / count) - 1);
}

TEST(PublishedFiguresTest, WholeSweepsAreOffByWhatIsStated) {
  constexpr int kPerHost = 8;
  const Sweep sweeps[] = {
      {"dgx_h100", 8, 450, 0, 3350, 248, 22},       {"a100", 8, 300, 0, 2039, 177, 27},
      {"h200", 8, 450, 0, 4800, 150, 22},           {"b200", 8, 900, 0, 8000, 233, 35},
      {"b200_4_hosts", 32, 900, 50, 8000, 287, 49}, {"ndmv4", 8, 300, 25, 2039, 53, 11},
      {"ndmv4", 16, 300, 25, 2039, 31, 31},         {"ndmv5", 8, 450, 50, 3350, 113, -1},
      {"ndmv5", 16, 450, 50, 3350, 25, 18},         {"p3dn", 16, 150, 1.5625, 900, 585, -1},
      {"p3dn", 32, 150, 1.5625, 900, 605, -1},      {"p3dn", 64, 150, 1.5625, 900, 850, -1}};
  for (const Sweep& sweep : sweeps) {
    SCOPED_TRACE(sweep.machine + ' ' + std::to_string(sweep.ranks));
    CostModel model = eight_h100();
    model.ranks_per_host = kPerHost;
    model.within_host.beta_s_per_byte = 1e-9 / sweep.nvlink_gbps;
    if (sweep.network_gbps > 0) model.between_hosts.beta_s_per_byte = 1e-9 / sweep.network_gbps;
    model.gamma_s_per_byte = 3e-9 / sweep.memory_gbps;
    std::ifstream file("tests/parallel/plan/predict/published_all_reduces.csv");
    double sum = 0, large_sum = 0;
    int count = 0, large_count = 0;
    for (std::string line; std::getline(file, line);) {
      std::replace(line.begin(), line.end(), ',', ' ');
      std::istringstream words(line);
      std::string machine;
      int ranks = 0;
      double bytes = 0, seconds = 0;
      words >> machine >> ranks >> bytes >> seconds;
      if (machine != sweep.machine || ranks != sweep.ranks) continue;
      const double off =
          std::abs(std::log(fastest_all_reduce(ranks, bytes, model).seconds / seconds));
      sum += off, ++count;
      if (bytes >= 16 * kMiB) large_sum += off, ++large_count;
    }
    EXPECT_NEAR(percent_of(sum, count), sweep.percent, 0.5);
    EXPECT_NEAR(percent_of(large_sum, large_count), sweep.percent_from_16_mib, 0.5);
  }
}

}  // namespace
}  // namespace ringrad
