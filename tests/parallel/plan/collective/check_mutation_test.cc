// Mutation: every good plan is broken in every place in every way below, and the checker must
// reject each mutant.
//
// A mutant may happen to be as good as the original (for example, two independent receives of one
// rank swapped). The checker is right to accept it, so each kind of mutation is chosen, or
// filtered, to leave none of these.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"

namespace ringrad {
namespace {

constexpr int kSlots = 8;  // plenty, so that only real faults are found

// Every algorithm, with two segments, another root or two hosts where it takes them.
std::vector<CollectivePlan> good_plans() {
  std::vector<CollectivePlan> plans;
  for (Collective collective : kAllCollectives)
    for (const std::string& algorithm : algorithm_names(collective))
      for (int n : {2, 3, 4, 5}) {
        plans.push_back(make_plan(collective, algorithm, n));
        const PlanOptions options{
            .segments = 2, .root = n - 1, .ranks_per_host = n % 2 == 0 ? n / 2 : 1};
        const CollectivePlan other = make_plan(collective, algorithm, n, options);
        if (other != plans.back()) plans.push_back(other);
      }
  return plans;
}

// Applies `mutate` to a copy of each plan at each step, as often as it returns true for variant 0,
// 1, ...
void expect_all_rejected(
    const std::function<bool(CollectivePlan&, int index, int variant)>& mutate) {
  int mutants = 0;
  for (const CollectivePlan& good : good_plans()) {
    ASSERT_FALSE(plan_check(good, 1));
    for (int i = 0; i < static_cast<int>(good.steps.size()); ++i)
      for (int variant = 0;; ++variant) {
        CollectivePlan mutant = good;
        if (!mutate(mutant, i, variant)) break;
        ++mutants;
        EXPECT_TRUE(plan_check(mutant, kSlots))
            << "accepted: " << good.algorithm << ' ' << name(good.collective) << ", "
            << good.world_size << " ranks, variant " << variant << " of: " << good.steps[i];
      }
  }
  EXPECT_GT(mutants, 100);
}

TEST(PlanCheckMutationTest, RejectsADroppedStep) {
  expect_all_rejected([](CollectivePlan& plan, int i, int variant) {
    plan.steps.erase(plan.steps.begin() + i);
    return variant == 0;
  });
}

// Except a copy staged twice, which is the same copy.
TEST(PlanCheckMutationTest, RejectsARepeatedStep) {
  expect_all_rejected([](CollectivePlan& plan, int i, int variant) {
    const Step again = plan.steps[i];
    if (again.op == StepOp::stage) return false;
    plan.steps.insert(plan.steps.begin() + i, again);
    return variant == 0;
  });
}

TEST(PlanCheckMutationTest, RejectsEveryOtherPeer) {
  expect_all_rejected([](CollectivePlan& plan, int i, int variant) {
    // All ranks, and one beyond either end; a sum gets its first foreign term replaced.
    Step& step = plan.steps[i];
    if (step.op == StepOp::stage) return false;
    int& peer = step.peers[0] == step.rank ? step.peers[1] : step.peers[0];
    const int replacement = variant - 1;
    if (replacement > plan.world_size) return false;
    peer = replacement == peer ? -7 : replacement;
    return true;
  });
}

TEST(PlanCheckMutationTest, RejectsEveryOtherChunk) {
  expect_all_rejected([](CollectivePlan& plan, int i, int variant) {
    const int replacement = variant - 1;
    if (replacement > plan.num_chunks) return false;
    plan.steps[i].chunk = replacement == plan.steps[i].chunk ? -7 : replacement;
    return true;
  });
}

TEST(PlanCheckMutationTest, RejectsEveryOtherRank) {
  expect_all_rejected([](CollectivePlan& plan, int i, int variant) {
    const int replacement = variant - 1;
    if (replacement > plan.world_size) return false;
    plan.steps[i].rank = replacement == plan.steps[i].rank ? -7 : replacement;
    return true;
  });
}

TEST(PlanCheckMutationTest, RejectsEveryOtherOperation) {
  expect_all_rejected([](CollectivePlan& plan, int i, int variant) {
    Step& step = plan.steps[i];
    const StepOp ops[] = {StepOp::send, StepOp::recv, StepOp::recv_reduce, StepOp::stage,
                          StepOp::send_staged};
    if (variant == std::ssize(ops)) return false;
    const int next = (step.rank + 1) % plan.world_size;
    const int peer = step.peers.empty()           ? next
                     : step.peers[0] == step.rank ? step.peers[1]
                                                  : step.peers[0];
    if (ops[variant] == step.op) {  // the same operation, without peers, or with one
      step.peers = step.op == StepOp::stage ? FewInts{peer} : FewInts();
      return true;
    }
    step.op = ops[variant];
    step.peers = {peer};
    if (step.op == StepOp::recv_reduce) step.peers = {peer, step.rank};
    if (step.op == StepOp::stage) step.peers = {};
    return true;
  });
}

TEST(PlanCheckMutationTest, RejectsAMissingOrForeignTerm) {
  expect_all_rejected([](CollectivePlan& plan, int i, int variant) {
    Step& step = plan.steps[i];
    if (step.op != StepOp::recv_reduce || variant >= static_cast<int>(step.peers.size()))
      return false;
    std::vector<int> terms(step.peers.begin(), step.peers.end());
    terms.erase(terms.begin() + variant);
    step.peers = terms;
    return true;
  });
}

// A rank that receives before it sends what the receive depends on waits for itself around the
// ring.
TEST(PlanCheckMutationTest, RejectsRanksThatAllReceiveFirst) {
  for (int n : {2, 3, 4, 8}) {
    for (CollectivePlan plan : {ring_all_reduce(n), two_shot_all_reduce(n), ring_all_gather(n)}) {
      // Stable: receives of a rank first, then its sends, in every slot.
      std::vector<Step> reordered;
      for (int slot = 0; slot < num_steps(plan); ++slot)
        for (bool sends : {false, true})
          for (const Step& step : plan.steps)
            if (step.step == slot && is_send(step.op) == sends) reordered.push_back(step);
      plan.steps = reordered;
      const auto example = plan_check(plan, kSlots);
      ASSERT_TRUE(example);
      EXPECT_EQ(example->fault, PlanFault::deadlock) << *example;
    }
  }
}

// A send moved before the receive of its value passes on stale data.
TEST(PlanCheckMutationTest, RejectsASendBeforeItsValueIsThere) {
  for (int n : {3, 4, 5}) {
    CollectivePlan plan = ring_reduce_scatter(n);
    for (Step& step : plan.steps) step.step = 0;  // so that only the order is judged
    int rejected = 0;
    for (std::size_t i = 0; i < plan.steps.size(); ++i)
      for (std::size_t j = i + 1; j < plan.steps.size(); ++j) {
        const Step &first = plan.steps[i], &second = plan.steps[j];
        if (first.rank != second.rank || first.op != StepOp::recv_reduce ||
            second.op != StepOp::send || first.chunk != second.chunk)
          continue;
        CollectivePlan mutant = plan;
        std::swap(mutant.steps[i], mutant.steps[j]);
        EXPECT_TRUE(plan_check(mutant, kSlots)) << first << " after " << second;
        ++rejected;
      }
    EXPECT_EQ(rejected, n * (n - 2));
  }
}

}  // namespace
}  // namespace ringrad
