// Compares the formulas with the simulation of the plans, and with published figures of NCCL
// (docs/prediction.md).

#include "ringrad/parallel/plan/predict/collective_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/compose.h"
#include "ringrad/parallel/plan/collective/tree_plan.h"
#include "ringrad/parallel/plan/predict/topology.h"

namespace ringrad {
namespace {

constexpr double kMiB = 1 << 20;

CostModel one_host(Wiring wiring = Wiring::ports) {
  return {.within_host = {3e-6, 1 / 100e9}, .gamma_s_per_byte = 1 / 2000e9, .wiring = wiring};
}
CostModel hosts_of(int ranks, Wiring wiring = Wiring::ports) {
  CostModel model = one_host(wiring);
  model.between_hosts = {10e-6, 1 / 50e9};
  model.ranks_per_host = ranks;
  return model;
}

// Formula over simulation.
double ratio(const char* algorithm, int n, double bytes, const CostModel& model) {
  const CollectivePlan plan = make_plan(Collective::all_reduce, algorithm, n,
                                        {.ranks_per_host = std::min(n, model.ranks_per_host)});
  return all_reduce_seconds(algorithm, n, bytes, model) /
         predicted_seconds(plan, static_cast<std::int64_t>(bytes), model);
}

TEST(CollectiveCostTest, IsTheSimulationForPowersOfTwo) {
  for (const Wiring wiring : {Wiring::ports, Wiring::wires, Wiring::reads})
    for (int n = 2; n <= 64; n *= 2)
      for (const double bytes : {0.0, 64 * 1024.0, 64 * kMiB}) {
        for (const char* algorithm : {"ring", "halving_doubling", "two_shot", "one_shot"})
          EXPECT_NEAR(ratio(algorithm, n, bytes, one_host(wiring)), 1, 1e-9) << algorithm << n;
        for (int m = 1; m < n; m *= 2)
          for (const char* algorithm : {"ring", "halving_doubling", "hierarchical"})
            EXPECT_NEAR(ratio(algorithm, n, bytes, hosts_of(m, wiring)), 1, 1e-9)
                << algorithm << n << " in " << m;
      }
}

// algorithms.cc has the only list of algorithms that run here.
TEST(CollectiveCostTest, FormulasAreOfPlansOrNcclsAndOtherPlansAreSimulated) {
  const std::vector<std::string> plans = algorithm_names(Collective::all_reduce);
  const std::vector<std::string> formulas = all_reduce_formulas();
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const std::string& name : formulas)
    EXPECT_NE(has(plans, name), name.starts_with("nccl_")) << name;
  const CostModel model = hosts_of(2);
  int num_simulated = 0;
  for (const std::string& name : plans) {
    if (has(formulas, name)) continue;
    ++num_simulated;
    EXPECT_NEAR(ratio(name.c_str(), 12, kMiB, model), 1, 1e-12) << name;
    EXPECT_EQ(fastest_all_reduce(12, kMiB, model, {{name}}).algorithm, name);
    EXPECT_THROW(all_reduce_seconds(name, 10'000, kMiB, model), std::invalid_argument) << name;
  }
  EXPECT_GT(num_simulated, 0);
}

TEST(CollectiveCostTest, IsCloseToTheSimulationForOtherNumbers) {
  for (int n = 3; n <= 63; n += n < 20 ? 1 : 7)
    for (const double bytes : {0.0, 1000.0 * n, 60 * kMiB}) {
      for (const char* algorithm : {"ring", "two_shot", "one_shot"})
        EXPECT_NEAR(ratio(algorithm, n, bytes, one_host()), 1, 1e-4) << algorithm << n;
      const double halving = ratio("halving_doubling", n, bytes, one_host());
      EXPECT_TRUE(0.75 < halving && halving < 1.0001) << n << ' ' << halving;
      for (const int m : {2, 3, 4, 8}) {
        const CostModel model = hosts_of(m);
        EXPECT_NEAR(ratio("ring", n, bytes, model), 1, 1e-4) << n << " in " << m;
        if (n > m && n % m == 0) {
          EXPECT_NEAR(ratio("hierarchical", n, bytes, model), 1, 1e-4) << n << " in " << m;
        }
        const double folded = ratio("halving_doubling", n, bytes, model);
        EXPECT_TRUE(0.67 < folded && folded < 2) << n << " in " << m << ": " << folded;
      }
    }
}

// The second tree is the first one with the ranks in reverse order, so that its inner ranks are the
// other's leaves.
CollectivePlan double_tree(int n, int segments) {
  const CollectivePlan tree = tree_all_reduce(n, segments);
  CollectivePlan plan = empty_plan(Collective::all_reduce, "double_tree", n, 2 * tree.num_chunks);
  std::vector<int> upwards, downwards;
  for (int r = 0; r < n; ++r) {
    upwards.push_back(r);
    downwards.push_back(n - 1 - r);
  }
  embed(plan, tree, {.ranks = upwards});
  embed(plan, tree, {.ranks = downwards, .first_chunk = tree.num_chunks});
  order_by_slot(plan);
  return plan;
}

TEST(CollectiveCostTest, IsCloseToTheSimulationOfTwoTrees) {
  CostModel model = one_host();
  for (const int n : {2, 3, 4, 7, 8, 16, 31, 32, 64})
    for (const double bytes : {0.0, 64 * 1024.0, kMiB, 64 * kMiB}) {
      const double formula = all_reduce_seconds("nccl_double_tree", n, bytes, model);
      double least = INFINITY;
      for (int segments = 1; segments <= 64; segments *= 2) {
        CostModel with_slots = model;
        // with one slot, trees that run side by side wait for each other forever
        with_slots.slots = 2;
        least = std::min(least, predicted_seconds(double_tree(n, segments),
                                                  static_cast<std::int64_t>(bytes), with_slots));
      }
      EXPECT_GT(formula / least, 0.8) << n << ' ' << bytes;
      EXPECT_LT(formula / least, 1.125) << n << ' ' << bytes;
    }
}

TEST(CollectiveCostTest, MoreRanksBytesAndSlowerLinksNeverCostLess) {
  for (const std::string& algorithm : all_reduce_formulas())
    for (const int n : {16, 64, 1024}) {
      const bool on_hosts = algorithm.find("hierarchical") != std::string::npos;
      const CostModel model = on_hosts ? hosts_of(8) : one_host();
      const auto seconds = [&](int ranks, double bytes, const CostModel& links) {
        return all_reduce_seconds(algorithm, ranks, bytes, links);
      };
      const double base = seconds(n, kMiB, model);
      EXPECT_GT(seconds(2 * n, kMiB, model), base) << algorithm;
      EXPECT_GT(seconds(n, 2 * kMiB, model), base) << algorithm;
      for (const double factor : {1.5, 4.0}) {
        CostModel slower = model;
        slower.within_host.alpha_s *= factor;
        EXPECT_GT(seconds(n, kMiB, slower), base) << algorithm;
        slower = model;
        slower.within_host.beta_s_per_byte *= factor;
        EXPECT_GT(seconds(n, kMiB, slower), base) << algorithm;
        slower = model;
        slower.gamma_s_per_byte *= factor;
        EXPECT_GT(seconds(n, kMiB, slower), base) << algorithm;
      }
    }
}

// --- Published figures of NCCL ---

// nccl-tests' doc/PERFORMANCE.md: bus bandwidth shows the link's speed, whatever the number of
// ranks.
TEST(CollectiveCostTest, BusBandwidthOfARingIsItsLinksWhateverTheNumberOfRanks) {
  CostModel model = one_host();
  model.gamma_s_per_byte = 0;
  for (const int n : {2, 8, 64, 1024}) {
    const double large = 1024 * n * kMiB;
    EXPECT_NEAR(bus_bandwidth(n, large, all_reduce_seconds("ring", n, large, model)) / 100e9, 1,
                1e-2);
    const double small = 8 * n;  // latency alone: far from it
    EXPECT_LT(bus_bandwidth(n, small, all_reduce_seconds("ring", n, small, model)), 1e8);
  }
  EXPECT_EQ(bus_bandwidth(1, kMiB, 0), 0);
}

// NVIDIA/nccl issue 457: in an all_reduce each GPU sends 2 (n-1)/n S on a ring, 2 S on a tree;
// issue 471: the ring has a high latency and the best bandwidth, the tree a low latency and a good
// bandwidth.
TEST(CollectiveCostTest, TreesHaveTheLatencyRingsTheBandwidth) {
  const CostModel model = named_topology("hosts:128", 1024).links;
  const std::vector<std::string> both{"ring", "nccl_double_tree"};
  double from_tree_to_ring = 0;
  for (const int n : {16, 64, 256, 1024}) {
    EXPECT_EQ(fastest_all_reduce(n, 1024, model, both).algorithm, "nccl_double_tree") << n;
    EXPECT_EQ(fastest_all_reduce(n, 64e9, model, both).algorithm, "ring") << n;
    double bytes = 1024;
    while (fastest_all_reduce(n, bytes, model, both).algorithm == "nccl_double_tree") bytes *= 2;
    EXPECT_GT(bytes, from_tree_to_ring) << n;  // the more ranks, the later the ring pays
    from_tree_to_ring = bytes;
  }
}

// NVIDIA/nccl issue 1712: on a ring, latency grows with the number of ranks, which affects middle
// sizes but not large ones.
TEST(CollectiveCostTest, MiddleSizesLoseBandwidthOnLargerRingsLargeOnesDoNot) {
  const CostModel model = one_host();
  const auto bandwidth = [&](int n, double bytes) {
    return bus_bandwidth(n, bytes, all_reduce_seconds("ring", n, bytes, model));
  };
  EXPECT_LT(bandwidth(64, kMiB), 0.25 * bandwidth(4, kMiB));
  EXPECT_GT(bandwidth(64, 16384 * kMiB), 0.95 * bandwidth(4, 16384 * kMiB));
}

// NVIDIA's blog on NCCL 2.4: on 24,576 GPUs (Summit, 6 on a host) trees had up to 180 times less
// latency than rings.
TEST(CollectiveCostTest, TreesOnThousandsOfHostsHaveOrdersOfMagnitudeLessLatency) {
  CostModel model = named_topology("hosts:4096", 1).links;
  model.ranks_per_host = 6;
  const double gain = all_reduce_seconds("ring", 24'576, 8, model) /
                      all_reduce_seconds("nccl_hierarchical_tree", 24'576, 8, model);
  EXPECT_GT(gain, 180);
  EXPECT_LT(gain, 180 * 20);
}

// arXiv:2507.04786, table of protocols: LL about 1 us per hop and 25 to 50 % of the bandwidth,
// LL128 2 us and 95 %, Simple 6 us and nearly all; small messages are fastest by LL, large ones by
// Simple.
TEST(CollectiveCostTest, ProtocolsOfLowLatencyWinSmallMessages) {
  struct Protocol {
    const char* name;
    double alpha_s, share;
  };
  const auto fastest = [](double bytes) {
    std::string name;
    double least = INFINITY;
    for (const auto& [protocol, alpha_s, share] :
         {Protocol{"LL", 1e-6, 0.375}, {"LL128", 2e-6, 0.95}, {"Simple", 6e-6, 1}}) {
      const CostModel model{.within_host = {alpha_s, 1 / (share * 450e9)}};
      const double seconds = all_reduce_seconds("ring", 8, bytes, model);
      if (seconds < least) name = protocol;
      least = std::min(least, seconds);
    }
    return name;
  };
  EXPECT_EQ(fastest(8), "LL");
  EXPECT_EQ(fastest(64 * 1024), "LL");
  EXPECT_EQ(fastest(16 * kMiB), "LL128");
  EXPECT_EQ(fastest(4096 * kMiB), "Simple");
}

TEST(CollectiveCostTest, AHierarchySendsLessOverTheNetworkThanAFlatRing) {
  const CostModel model = named_topology("hosts:1250", 10'000).links;
  const double flat = all_reduce_seconds("ring", 10'000, 1e9, model),
               hierarchical = all_reduce_seconds("hierarchical", 10'000, 1e9, model);
  EXPECT_LT(hierarchical, flat / 4);
  EXPECT_EQ(fastest_all_reduce(10'000, 1e4, model).algorithm, "nccl_hierarchical_tree");
}

// --- Errors ---

TEST(CollectiveCostTest, RefusesWhatMakesNoSense) {
  const CostModel model = hosts_of(8);
  EXPECT_EQ(all_reduce_seconds("ring", 1, 1e9, model), 0);
  EXPECT_THROW(all_reduce_seconds("star", 8, 1, model), std::invalid_argument);
  EXPECT_THROW(all_reduce_seconds("ring", 0, 1, model), std::invalid_argument);
  EXPECT_THROW(all_reduce_seconds("ring", 8, -1, model), std::invalid_argument);
  EXPECT_THROW(all_reduce_seconds("ring", 8, NAN, model), std::invalid_argument);
  EXPECT_THROW(all_reduce_seconds("hierarchical", 12, 1, model), std::invalid_argument);
  EXPECT_THROW(all_reduce_seconds("nccl_hierarchical_tree", 8, 1, model), std::invalid_argument);
  EXPECT_THROW(all_reduce_seconds("two_shot", 16, 1, model), std::invalid_argument);
  EXPECT_THROW(fastest_all_reduce(12, 1, model, std::vector<std::string>{"hierarchical"}),
               std::invalid_argument);
  EXPECT_EQ(fastest_all_reduce(12, 1e9, model).algorithm, "ring");
  for (const double wrong : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    CostModel bad = model;
    bad.between_hosts.alpha_s = wrong;
    EXPECT_THROW(all_reduce_seconds("ring", 8, 1, bad), std::invalid_argument) << wrong;
  }
  CostModel bad = model;
  bad.ranks_per_host = 0;
  EXPECT_THROW(all_reduce_seconds("ring", 8, 1, bad), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
