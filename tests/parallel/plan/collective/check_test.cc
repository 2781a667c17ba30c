// One broken plan per kind of fault, each written by hand as a user would, with its expected
// counter-example.

#include "ringrad/parallel/plan/collective/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"

namespace ringrad {
namespace {

CollectivePlan plan_of(Collective collective, int world_size, int num_chunks) {
  CollectivePlan plan;
  plan.collective = collective;
  plan.algorithm = "test";
  plan.world_size = world_size;
  plan.num_chunks = num_chunks;
  return plan;
}

std::string verdict(const CollectivePlan& plan, int slots = 1) {
  const auto example = plan_check(plan, slots);
  if (!example) return "proved";
  std::ostringstream out;
  out << *example;
  return out.str();
}

TEST(PlanCheckTest, ProvesAHandWrittenReduceToRankZeroThenBroadcast) {
  CollectivePlan plan = plan_of(Collective::all_reduce, 3, 1);
  plan.send(0, 1, 0, 0);
  plan.send(0, 2, 0, 0);
  plan.recv_reduce(0, 0, 0, {0, 1, 2});
  plan.send(1, 0, 0, 1);
  plan.send(1, 0, 0, 2);
  plan.recv(1, 1, 0, 0);
  plan.recv(1, 2, 0, 0);
  EXPECT_EQ(verdict(plan), "proved");
}

TEST(PlanCheckTest, TheOrderOfRanksInTheListDoesNotMatter) {
  CollectivePlan plan = plan_of(Collective::broadcast, 2, 1);
  plan.recv(0, 1, 0, 0);
  plan.send(0, 0, 0, 1);
  EXPECT_EQ(verdict(plan), "proved");
}

TEST(PlanCheckTest, NamesAChunkOutOfBounds) {
  CollectivePlan plan = plan_of(Collective::broadcast, 2, 1);
  plan.send(0, 0, 1, 1);
  plan.recv(0, 1, 1, 0);
  EXPECT_EQ(verdict(plan),
            "malformed: step 0, rank 0 send chunk 1 -> 1: chunk must be in [0, 1); got 1");
}

TEST(PlanCheckTest, NamesAMessageToOneself) {
  CollectivePlan plan = plan_of(Collective::broadcast, 2, 1);
  plan.send(0, 0, 0, 0);
  EXPECT_EQ(plan_check(plan)->fault, PlanFault::malformed);
}

TEST(PlanCheckTest, NamesTimeSlotsThatRunBackwards) {
  CollectivePlan plan = ring_all_reduce(3);
  plan.steps.back().step = 0;
  EXPECT_EQ(plan_check(plan)->fault, PlanFault::malformed);
}

TEST(PlanCheckTest, RejectsUnequalSharesAndStrangeRoots) {
  EXPECT_EQ(plan_check(plan_of(Collective::reduce_scatter, 2, 3))->fault, PlanFault::malformed);
  EXPECT_EQ(plan_check(plan_of(Collective::all_reduce, 0, 1))->fault, PlanFault::malformed);
  EXPECT_EQ(plan_check(plan_of(Collective::all_reduce, -3, 1))->fault, PlanFault::malformed);
  CollectivePlan plan = plan_of(Collective::broadcast, 2, 1);
  plan.root = 2;
  EXPECT_EQ(plan_check(plan)->fault, PlanFault::malformed);
}

TEST(PlanCheckTest, NamesEveryRankOfACycleOfReceives) {
  CollectivePlan plan = plan_of(Collective::all_reduce, 2, 1);
  for (int r : {0, 1}) {
    plan.recv_reduce(0, r, 0, {0, 1});
    plan.send(0, r, 0, 1 - r);
  }
  EXPECT_EQ(verdict(plan),
            "deadlock: with 1 slots per channel every rank must finish; rank 0 recv_reduce chunk 0 "
            "<- 0 1 waits; rank 1 recv_reduce chunk 0 <- 0 1 waits");
}

// Both ranks send two chunks before they receive one.
CollectivePlan exchange_of_two_chunks(int slot_of_second) {
  CollectivePlan plan = plan_of(Collective::all_gather, 2, 4);
  for (int r : {0, 1}) {
    plan.send(0, r, 2 * r, 1 - r);
    plan.send(slot_of_second, r, 2 * r + 1, 1 - r);
    plan.recv(slot_of_second, r, 2 - 2 * r, 1 - r);
    plan.recv(slot_of_second, r, 3 - 2 * r, 1 - r);
  }
  return plan;
}

TEST(PlanCheckTest, ADeadlockMayDependOnTheNumberOfSlots) {
  EXPECT_EQ(plan_check(exchange_of_two_chunks(1), 1)->fault, PlanFault::deadlock);
  EXPECT_EQ(verdict(exchange_of_two_chunks(1), 2), "proved");
}

TEST(PlanCheckTest, SendsOfOneSlotToOnePeerAreOneMessage) {
  EXPECT_EQ(verdict(exchange_of_two_chunks(0), 1), "proved");
}

TEST(PlanCheckTest, AMessageEndsWhereTheRankDoesSomethingElse) {
  CollectivePlan plan = plan_of(Collective::broadcast, 3, 2);
  plan.send(0, 0, 0, 1);
  plan.send(0, 0, 0, 2);
  plan.send(0, 0, 1, 1);
  plan.send(0, 0, 1, 2);
  for (int chunk : {0, 1}) plan.recv(0, 2, chunk, 0);
  plan.send(0, 2, 0, 1);  // rank 1 waits for it before it takes rank 0's chunks
  plan.recv(0, 1, 0, 2);
  for (int chunk : {0, 1}) plan.recv(0, 1, chunk, 0);
  EXPECT_EQ(plan_check(plan, 1)->fault, PlanFault::deadlock);
  EXPECT_EQ(verdict(plan, 2), "proved");
}

TEST(PlanCheckTest, NamesASendThatNobodyReceives) {
  CollectivePlan plan = direct_broadcast(2, 0);
  plan.send(1, 0, 0, 1);
  EXPECT_EQ(
      verdict(plan),
      "unmatched: step 1, rank 0 send chunk 0 -> 1: rank 1 must receive it; got no such step");
}

TEST(PlanCheckTest, NamesAMessageReceivedAsAnotherChunk) {
  CollectivePlan plan = plan_of(Collective::broadcast, 2, 2);
  plan.send(0, 0, 0, 1);
  plan.recv(0, 1, 1, 0);
  EXPECT_EQ(
      verdict(plan),
      "unmatched: step 0, rank 1 recv chunk 1 <- 0: rank 0 must offer chunk 1; got chunk 0 of "
      "its step 0");
}

// Each rank sends its whole buffer and adds the other's. This would be right if messages were
// copies, but a rank may overwrite its buffer while the other still reads it.
TEST(PlanCheckTest, NamesAChunkWrittenWhileItIsLent) {
  CollectivePlan plan = plan_of(Collective::all_reduce, 2, 1);
  for (int r : {0, 1}) {
    plan.send(0, r, 0, 1 - r);
    plan.recv_reduce(0, r, 0, {0, 1});
  }
  EXPECT_EQ(
      verdict(plan),
      "overwritten_read: step 0, rank 1 recv_reduce chunk 0 <- 0 1: the chunk must not be "
      "written while rank 0 may be reading it; got a read that began at step 0 and no word since "
      "that it was read");
}

TEST(PlanCheckTest, AReadEndsWhenItsReportReturnsThroughOthers) {
  EXPECT_EQ(verdict(ring_all_reduce(5)), "proved");  // the rank learns it around the ring
}

TEST(PlanCheckTest, NamesAChunkUsedBeforeItHasAValue) {
  CollectivePlan plan = plan_of(Collective::broadcast, 2, 1);
  plan.send(0, 1, 0, 0);
  plan.recv(0, 0, 0, 1);
  EXPECT_EQ(
      verdict(plan),
      "no_value: step 0, rank 1 send chunk 0 -> 0: the chunk must have a value; got none yet");
}

TEST(PlanCheckTest, NamesAContributionAddedTwice) {
  CollectivePlan plan = plan_of(Collective::all_reduce, 2, 1);
  for (int step : {0, 1}) {
    plan.send(step, 1, 0, 0);
    plan.recv_reduce(step, 0, 0, {0, 1});
  }
  EXPECT_EQ(
      verdict(plan),
      "duplicate: step 1, rank 0 recv_reduce chunk 0 <- 0 1: rank 1 must contribute once; got "
      "((x0 + x1) + x1)");
}

TEST(PlanCheckTest, NamesAMissingContribution) {
  CollectivePlan plan = plan_of(Collective::all_reduce, 3, 1);
  plan.send(0, 1, 0, 0);
  plan.recv_reduce(0, 0, 0, {0, 1});
  EXPECT_EQ(verdict(plan),
            "wrong_result: in the end rank 0 must hold in chunk 0 every rank's contribution once; "
            "got (x0 + x1)");
}

// In chunk 0, ranks 0 and 2 finish with (x0 + x1) + (x2 + x3), ranks 1 and 3 with the two halves
// swapped: right in mathematics, but equal bits are not proved. Chunk 1 is summed at rank 0; its
// messages also tell ranks 0 and 2 that their chunk 0 was read.
TEST(PlanCheckTest, NamesRanksThatAddInDifferentOrders) {
  CollectivePlan plan = plan_of(Collective::all_reduce, 4, 2);
  for (int left : {0, 2}) {
    plan.send(0, left + 1, 0, left);
    plan.recv_reduce(0, left, 0, {left, left + 1});
    plan.send(1, left, 0, left + 1);
    plan.recv(1, left + 1, 0, left);
    plan.send(2, left + 1, 1, left);
    plan.recv_reduce(2, left, 1, {left, left + 1});
  }
  plan.send(3, 2, 1, 0);
  plan.recv_reduce(3, 0, 1, {0, 2});
  for (int other : {1, 2, 3}) {
    plan.send(4, 0, 1, other);
    plan.recv(4, other, 1, 0);
  }
  for (int r : {0, 1}) {
    plan.send(5, r + 2, 0, r);
    plan.recv_reduce(5, r, 0, r == 0 ? std::vector<int>{0, 2} : std::vector<int>{3, 1});
    plan.send(6, r, 0, r + 2);
    plan.recv(6, r + 2, 0, r);
  }
  EXPECT_EQ(verdict(plan),
            "wrong_result: in the end rank 1 must hold in chunk 0 ((x0 + x1) + (x2 + x3)); got "
            "((x2 + x3) + (x0 + x1))");
}

TEST(PlanCheckTest, OwnersOfAReduceScatterMayEachAddInTheirOwnOrder) {
  CollectivePlan plan = plan_of(Collective::reduce_scatter, 3, 3);
  for (int r = 0; r < 3; ++r)
    for (int owner : {(r + 1) % 3, (r + 2) % 3}) plan.send(0, r, owner, owner);
  for (int r = 0; r < 3; ++r) plan.recv_reduce(0, r, r, {(r + 2) % 3, r, (r + 1) % 3});
  EXPECT_EQ(verdict(plan), "proved");
}

// --- Staged copies ---

// Both ranks send a copy of their buffer and add the other's into the buffer.
CollectivePlan staged_exchange() {
  CollectivePlan plan = plan_of(Collective::all_reduce, 2, 1);
  for (int r : {0, 1}) {
    plan.stage(0, r, 0);
    plan.send_staged(0, r, 0, 1 - r);
    plan.recv_reduce(0, r, 0, {0, 1});
  }
  return plan;
}

TEST(PlanCheckTest, AChunkWhoseCopyIsLentMayBeWritten) {
  EXPECT_EQ(verdict(staged_exchange()), "proved");
}

TEST(PlanCheckTest, NamesACopyMadeAnewWhileItIsLent) {
  CollectivePlan plan = staged_exchange();
  plan.stage(1, 1, 0);
  EXPECT_EQ(
      verdict(plan),
      "overwritten_read: step 1, rank 1 stage chunk 0: the copy must not be written while "
      "rank 0 may be reading it; got a read that began at step 0 and no word since that it was "
      "read");
}

TEST(PlanCheckTest, ACopyMayBeMadeAnewAfterAReportOfItsRead) {
  CollectivePlan plan = staged_exchange();
  plan.send(1, 0, 0, 1);
  plan.recv(1, 1, 0, 0);
  plan.stage(2, 1, 0);
  EXPECT_EQ(verdict(plan), "proved");
}

TEST(PlanCheckTest, ACopyKeepsWhatItsChunkHeldWhenItWasStaged) {
  CollectivePlan plan = staged_exchange();
  plan.send_staged(1, 0, 0, 1);  // x0, though rank 0's chunk is x0 + x1 by now
  plan.recv(1, 1, 0, 0);
  EXPECT_EQ(verdict(plan),
            "wrong_result: in the end rank 1 must hold in chunk 0 every rank's contribution once; "
            "got x0");
}

TEST(PlanCheckTest, NamesACopyThatIsSentButWasNotMade) {
  CollectivePlan plan = staged_exchange();
  plan.steps.erase(plan.steps.begin());
  EXPECT_EQ(verdict(plan),
            "no_value: step 0, rank 0 send_staged chunk 0 -> 1: a copy must have been staged; got "
            "none yet");
}

TEST(PlanCheckTest, NamesACopyOfNothing) {
  CollectivePlan plan = plan_of(Collective::broadcast, 2, 1);
  plan.stage(0, 1, 0);
  EXPECT_EQ(verdict(plan),
            "no_value: step 0, rank 1 stage chunk 0: the chunk must have a value; got none yet");
  plan.steps[0].peers = {0};
  EXPECT_EQ(plan_check(plan)->fault, PlanFault::malformed);
}

// --- Collectives ---

TEST(PlanCheckTest, AReducePromisesTheSumToItsRootOnly) {
  CollectivePlan plan = plan_of(Collective::reduce, 3, 1);
  plan.root = 1;
  plan.send(0, 0, 0, 1);
  plan.send(0, 2, 0, 1);
  plan.recv_reduce(0, 1, 0, {2, 1, 0});
  EXPECT_EQ(verdict(plan), "proved");
  plan.root = 0;
  EXPECT_EQ(verdict(plan),
            "wrong_result: in the end rank 0 must hold in chunk 0 every rank's contribution once; "
            "got x0");
}

// Rank 0's part for rank 2 goes through rank 1.
TEST(PlanCheckTest, ProvesAnAllToAllThatRelays) {
  CollectivePlan plan = plan_of(Collective::all_to_all, 3, 9);
  const auto message = [&](int slot, int from, int to, int chunk) {
    plan.send(slot, from, chunk, to);
    plan.recv(slot, to, chunk, from);
  };
  message(0, 0, 1, 1);
  message(1, 0, 1, 2);
  message(2, 1, 2, 2);
  message(3, 1, 2, 5);
  message(4, 1, 0, 3);
  message(5, 2, 0, 6);
  message(6, 2, 1, 7);
  EXPECT_EQ(verdict(plan), "proved");
  plan.steps.resize(plan.steps.size() - 2);
  EXPECT_EQ(verdict(plan), "wrong_result: in the end rank 1 must hold in chunk 7 x2; got nothing");
}

TEST(PlanCheckTest, AnAllToAllHasAChunkPerPairOfRanks) {
  EXPECT_EQ(
      verdict(plan_of(Collective::all_to_all, 3, 3)),
      "malformed: an all_to_all must have a chunk for every pair of ranks; got 3 chunks and 3 "
      "ranks");
}

TEST(PlanCheckTest, JudgesByTheCollectiveAndNotByTheAlgorithm) {
  CollectivePlan plan = ring_all_gather(2);
  plan.collective = Collective::broadcast;
  EXPECT_EQ(
      verdict(plan),
      "no_value: step 0, rank 1 send chunk 1 -> 0: the chunk must have a value; got none yet");
}

// More ranks than one word has bits, and than a test may prove in every way. A fault of one rank
// among many is found like any other.
TEST(PlanCheckTest, FindsOneFaultAmongManyRanks) {
  constexpr int kRanks = 200, kFaulty = 170;
  for (const char* const algorithm : {"two_shot", "one_shot", "ring", "chain", "tree"}) {
    const CollectivePlan plan = make_plan(Collective::all_reduce, algorithm, kRanks);
    EXPECT_EQ(verdict(plan), "proved") << algorithm;
    CollectivePlan broken = plan;
    const auto sum = std::find_if(broken.steps.begin(), broken.steps.end(), [&](const Step& step) {
      return step.op == StepOp::recv_reduce &&
             std::count(step.peers.begin(), step.peers.end(), kFaulty) == 1;
    });
    ASSERT_NE(sum, broken.steps.end()) << algorithm;
    std::vector<int> terms(sum->peers.begin(), sum->peers.end());
    std::erase(terms, kFaulty);
    sum->peers = terms;
    EXPECT_NE(verdict(broken), "proved") << algorithm;
  }
  // Two ranks send their sums, in which rank 170 is already, to rank 0.
  CollectivePlan twice = plan_of(Collective::reduce, kRanks, 1);
  twice.send(0, kFaulty, 0, 1);
  twice.send(0, kFaulty, 0, 2);
  twice.recv_reduce(0, 1, 0, {1, kFaulty});
  twice.recv_reduce(0, 2, 0, {2, kFaulty});
  twice.send(1, 1, 0, 0);
  twice.send(1, 2, 0, 0);
  twice.recv_reduce(1, 0, 0, {0, 1, 2});
  EXPECT_EQ(
      verdict(twice),
      "duplicate: step 1, rank 0 recv_reduce chunk 0 <- 0 1 2: rank 170 must contribute once; "
      "got ((x0 + (x1 + x170)) + (x2 + x170))");
}

}  // namespace
}  // namespace ringrad
