// Compares the simulation with the textbook's formulas, which are exact for powers of two and equal
// chunks, and checks what must hold for any timeline.

#include "ringrad/parallel/plan/predict/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <stdexcept>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/replay.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"

namespace ringrad {
namespace {

constexpr double kAlpha = 3e-6, kBeta = 1 / 370e9, kGamma = 1 / 2000e9;
constexpr std::int64_t kBytes = 1 << 20;

CostModel model_of(Wiring wiring, double gamma = kGamma) {
  return {.within_host = {kAlpha, kBeta}, .gamma_s_per_byte = gamma, .wiring = wiring};
}

// p alpha + b S beta + g S gamma
void expect_seconds(const CollectivePlan& plan, const CostModel& model, double p, double b,
                    double g) {
  const double S = kBytes;
  const double formula = p * kAlpha + b * S * kBeta + g * S * model.gamma_s_per_byte;
  EXPECT_NEAR(predicted_seconds(plan, kBytes, model), formula, 1e-9 * formula)
      << plan.algorithm << ' ' << name(plan.collective) << ", " << plan.world_size << " ranks";
}

TEST(CostTest, AgreesWithTheFormulasOnPorts) {
  const CostModel model = model_of(Wiring::ports);
  for (int n : {2, 4, 8, 16, 32}) {
    const double log_n = std::bit_width(static_cast<unsigned>(n)) - 1;
    const double part = (n - 1.0) / n;
    const auto all_reduce = [&](const char* algorithm) {
      return make_plan(Collective::all_reduce, algorithm, n);
    };
    expect_seconds(all_reduce("ring"), model, 2 * (n - 1), 2 * part, part);
    expect_seconds(all_reduce("halving_doubling"), model, 2 * log_n, 2 * part, part);
    expect_seconds(all_reduce("two_shot"), model, 2, 2 * part, part);
    expect_seconds(all_reduce("one_shot"), model, 1, n - 1, n);
    expect_seconds(make_plan(Collective::reduce_scatter, "direct", n), model, 1, part, part);
    expect_seconds(make_plan(Collective::reduce_scatter, "halving", n), model, log_n, part, part);
    expect_seconds(make_plan(Collective::all_gather, "doubling", n), model, log_n, part, 0);
    expect_seconds(make_plan(Collective::all_gather, "ring", n), model, n - 1, part, 0);
    expect_seconds(make_plan(Collective::broadcast, "binomial", n), model, log_n, log_n, 0);
    expect_seconds(make_plan(Collective::broadcast, "direct", n), model, 1, n - 1, 0);
    expect_seconds(make_plan(Collective::reduce, "binomial", n), model, log_n, log_n, log_n);
    expect_seconds(make_plan(Collective::reduce, "direct", n), model, 1, n - 1, n - 1);
    expect_seconds(make_plan(Collective::all_to_all, "pairwise", n), model, n - 1, part, 0);
  }
}

TEST(CostTest, RefusesStepsOfRanksAndChunksThatThePlanLacks) {
  for (const Step& step :
       {Step{.step = 0, .rank = 2, .op = StepOp::send, .chunk = 0, .peers = {1}},
        Step{.step = 0, .rank = 0, .op = StepOp::send, .chunk = 5, .peers = {1}},
        Step{.step = 0, .rank = 0, .op = StepOp::send, .chunk = 0, .peers = {99}}}) {
    CollectivePlan plan = empty_plan(Collective::all_reduce, "own", 2, 1);
    plan.steps.push_back(step);
    EXPECT_THROW(predicted_seconds(plan, kBytes, model_of(Wiring::ports)), std::invalid_argument);
  }
}

TEST(CostTest, AgreesWithTheFormulasOnWires) {
  const CostModel model = model_of(Wiring::wires);
  for (int n : {4, 8, 16}) {
    const double part = (n - 1.0) / n;
    expect_seconds(make_plan(Collective::all_reduce, "bidirectional_ring", n), model, 2 * (n - 1),
                   part, part);
    for (int k : {1, 4, 16, 64}) {
      const CollectivePlan chain = make_plan(Collective::all_reduce, "chain", n, {.segments = k});
      const double slots = 2 * (n - 1) + k - 1;
      expect_seconds(chain, model_of(Wiring::wires, 0), slots, slots / k, 0);
      // Sums are computed on the way up only.
      expect_seconds(chain, model, slots, slots / k, (n - 1.0 + k - 1) / k);
      expect_seconds(make_plan(Collective::broadcast, "chain", n, {.segments = k}), model,
                     n - 1 + k - 1, (n - 1.0 + k - 1) / k, 0);
    }
  }
}

TEST(CostTest, LinksBetweenHostsHaveTheirOwnCost) {
  const int hosts = 4, m = 8;
  CostModel model = model_of(Wiring::ports);
  model.between_hosts = {5 * kAlpha, 20 * kBeta};
  model.ranks_per_host = m;
  // Two direct phases inside, each alpha and (m - 1) / m; a ring of hosts on 1 / m between.
  const double inside = (m - 1.0) / m, between = (hosts - 1.0) / hosts / m;
  expect_seconds(
      make_plan(Collective::all_reduce, "hierarchical", hosts * m, {.ranks_per_host = m}), model,
      2 + 5 * 2 * (hosts - 1), 2 * inside + 20 * 2 * between, inside + between);
}

TEST(CostTest, APortTakesOneMessageInAtATimeWiresTakeAll) {
  const CollectivePlan plan = make_plan(Collective::reduce, "direct", 5);
  expect_seconds(plan, model_of(Wiring::ports, 0), 1, 4, 0);
  expect_seconds(plan, model_of(Wiring::wires, 0), 1, 1, 0);
}

// Rank 1 handles rank 2's slow message before it takes the two of rank 0.
TEST(CostTest, ASendWaitsForAPlaceInTheChannel) {
  CollectivePlan plan = empty_plan(Collective::broadcast, "test", 3, 2);
  for (int slot : {0, 1}) plan.send(slot, 0, slot, 1);
  for (int slot : {0, 1}) plan.send(slot, 0, slot, 2);
  plan.recv(0, 2, 0, 0);
  plan.send(1, 2, 0, 1);
  plan.recv(1, 2, 1, 0);
  plan.recv(1, 1, 0, 2);
  for (int slot : {0, 1}) plan.recv(1, 1, slot, 0);
  ASSERT_TRUE(plan_check(plan, 1));  // with one place in the channel it hangs
  CostModel model = model_of(Wiring::wires, 0);
  EXPECT_THROW(predicted_seconds(plan, 8, model), std::invalid_argument);
  model.slots = 2;
  const double hop = kAlpha + 4 * kBeta;
  EXPECT_NEAR(predicted_seconds(plan, 8, model), 2 * hop, 1e-12);

  plan = empty_plan(Collective::broadcast, "test", 2, 3);
  for (int slot : {0, 1, 2}) plan.send(slot, 0, slot, 1);
  for (int slot : {0, 1, 2}) plan.recv(slot, 1, slot, 0);
  for (int slots : {1, 2, 3}) {  // alpha is paid as often as the sender must wait
    model.slots = slots;
    const double waits = 3 / slots + (3 % slots > 0);
    EXPECT_NEAR(plan_timeline(plan, 0, model).back().end_s, waits * kAlpha, 1e-12) << slots;
  }
}

// --- Any timeline ---

struct Interval {
  double begin, end;
};

void expect_disjoint(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < intervals.size(); ++i)
    EXPECT_GE(intervals[i].begin, intervals[i - 1].end * (1 - 1e-9));
}

TEST(CostTest, NothingIsUsedBeforeItIsThere) {
  for (Collective collective : kAllCollectives)
    for (int n = 2; n <= 9; ++n)
      for_every_plan(collective, n, [](const CollectivePlan& plan) {
        const auto times = plan_timeline(plan, 1003, model_of(Wiring::ports));
        const Replay run = replay(plan, 1);
        std::map<int, double> clock;
        for (std::size_t i = 0; i < plan.steps.size(); ++i) {
          EXPECT_LE(times[i].start_s, times[i].end_s);
          const bool is_sent = is_send(plan.steps[i].op);
          EXPECT_GE(times[i].start_s, clock[plan.steps[i].rank]);
          if (!is_sent) clock[plan.steps[i].rank] = times[i].end_s;
          for (int send : is_sent ? FewInts() : run.partners[i])
            if (send >= 0) {
              EXPECT_GE(times[i].start_s, times[send].end_s);
            }
        }
      });
}

TEST(CostTest, APortNeverCarriesTwoMessagesOneWay) {
  const CostModel model = model_of(Wiring::ports);
  for (Collective collective : kAllCollectives)
    for (int n = 2; n <= 9; ++n)
      for_every_plan(collective, n, [&](const CollectivePlan& plan) {
        const auto times = plan_timeline(plan, 100003, model);
        // A message is everything that sets out at one time from one rank to one other.
        std::map<std::tuple<int, int, double, double>, double> bytes;
        for (std::size_t i = 0; i < plan.steps.size(); ++i)
          if (is_send(plan.steps[i].op))
            bytes[{plan.steps[i].rank, plan.steps[i].peers[0], times[i].start_s, times[i].end_s}] +=
                static_cast<double>(chunk_size(plan, plan.steps[i].chunk, 100003));
        std::map<int, std::vector<Interval>> out, in;
        for (const auto& [message, size] : bytes) {
          const auto& [from, to, start, end] = message;
          out[from].push_back({start, start + size * kBeta});
          in[to].push_back({end - size * kBeta, end});
        }
        for (const auto& [rank, intervals] : out) expect_disjoint(intervals);
        for (const auto& [rank, intervals] : in) expect_disjoint(intervals);
      });
}

TEST(CostTest, ThrowsForModelsThatCannotBe) {
  const CollectivePlan plan = make_plan(Collective::all_reduce, "ring", 2);
  EXPECT_THROW(predicted_seconds(plan, -1, {}), std::invalid_argument);
  EXPECT_THROW(predicted_seconds(plan, 8, {.ranks_per_host = 0}), std::invalid_argument);
  EXPECT_THROW(predicted_seconds(plan, 8, {.slots = 0}), std::invalid_argument);
}

}  // namespace
}  // namespace ringrad
