#include "ringrad/parallel/comm/memory/plan_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ringrad/parallel/comm/memory/plan_runner.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"

namespace ringrad {
namespace {

int count_if(const PlanPrograms& programs, bool (*holds)(const Instruction&)) {
  int count = 0;
  for (const PlanProgram& program : programs.ranks)
    for (const Instruction& instruction : program.instructions) count += holds(instruction);
  return count;
}

bool is_copy(const Instruction& i) { return i.op == StepOp::recv && !i.delivered; }
bool completes(const Instruction& i) { return i.completes; }

TEST(PlanProgramTest, OneSumPerChunkCompletesIt) {
  for (int n = 2; n <= 8; ++n)
    for (int segments : {1, 2, 3}) {
      EXPECT_EQ(count_if(compile(ring_all_reduce(n, segments)), completes), n * segments);
      EXPECT_EQ(count_if(compile(two_shot_all_reduce(n, segments)), completes), n * segments);
    }
  EXPECT_EQ(count_if(compile(ring_reduce_scatter(5)), completes), 5);
}

TEST(PlanProgramTest, ATwoShotDeliversEverySum) {
  for (int n = 2; n <= 8; ++n)
    for (int segments : {1, 2, 3})
      EXPECT_EQ(count_if(compile(two_shot_all_reduce(n, segments)), is_copy), 0);
}

TEST(PlanProgramTest, ARingDeliversTheFirstHopOfEveryFinishedChunk) {
  for (int n = 2; n <= 8; ++n)
    EXPECT_EQ(count_if(compile(ring_all_reduce(n)), is_copy), n * (n - 2));
}

TEST(PlanProgramTest, TwoRanksNeedNoReportOfReadsAtTheEnd) {
  // Rank 0's lent data was read before the last message that rank 0 waits for was sent.
  const PlanPrograms programs = compile(ring_all_reduce(2));
  const PlanProgram& rank0 = programs.ranks[0];
  EXPECT_EQ(rank0.num_leading, 1);
  ASSERT_EQ(rank0.instructions.size(), 4u);
  ASSERT_EQ(rank0.instructions[1].deliver_to.size(), 1u);
  EXPECT_EQ(rank0.instructions[1].deliver_to[0].rank, 1);
  EXPECT_TRUE(rank0.instructions[3].delivered);
  ASSERT_EQ(rank0.last_reads.size(), 1u);
  EXPECT_LE(rank0.last_reads[0].progress, rank0.instructions[3].terms[0].ready.progress);
}

// A reduce_scatter in which rank 1 gets a copy of rank 0's finished chunk 0. If rank 1 has also
// lent its old chunk 0 to rank 2, rank 2 reads it only after rank 0 has added.
CollectivePlan plan_with_late_reader(bool late_reader) {
  CollectivePlan plan;
  plan.collective = Collective::reduce_scatter;
  plan.algorithm = "late reader";
  plan.world_size = 3;
  plan.num_chunks = 3;
  plan.send(0, 0, 1, 1);
  plan.send(0, 1, 0, 0);
  plan.send(0, 1, 2, 2);
  plan.send(0, 2, 0, 0);
  plan.recv_reduce(0, 0, 0, {0, 1, 2});  // the sum that rank 1 receives
  plan.send(1, 0, 2, 2);
  plan.recv_reduce(1, 2, 2, {0, 1, 2});  // tells rank 2 that its chunk 0 has been read
  if (late_reader) plan.send(1, 1, 0, 2);
  if (late_reader) plan.recv(1, 2, 0, 1);
  plan.send(2, 2, 1, 1);
  plan.recv_reduce(2, 1, 1, {0, 1, 2});  // tells rank 1 that rank 2 has read
  plan.send(2, 0, 0, 1);
  plan.recv(2, 1, 0, 0);
  return plan;
}

TEST(PlanProgramTest, DoesNotDeliverIntoAChunkThatIsStillLent) {
  for (bool late_reader : {false, true}) {
    const PlanPrograms programs = compile(plan_with_late_reader(late_reader));
    EXPECT_EQ(programs.ranks[1].instructions.back().delivered, !late_reader);
  }
}

TEST(PlanProgramTest, ABroadcastIsReadByAllAtOnce) {
  EXPECT_EQ(count_if(compile(direct_broadcast(5, 3)), is_copy), 4);
}

TEST(PlanProgramTest, OnlyRanksThatStageNeedStagingBuffers) {
  for (const PlanProgram& program : compile(one_shot_all_reduce(4)).ranks) {
    EXPECT_EQ(program.num_staged, 1);
    EXPECT_EQ(program.num_leading, 4);  // the copy and three sends, all before any message arrives
  }
  for (const PlanProgram& program : compile(two_shot_all_reduce(4)).ranks)
    EXPECT_EQ(program.num_staged, 0);
}

TEST(PlanProgramTest, ADirectAllToAllReadsInputsWhereTheyLie) {
  const PlanPrograms programs = compile(pairwise_all_to_all(4));
  EXPECT_EQ(programs.num_parts, 4);
  for (int rank = 0; rank < 4; ++rank) {
    const PlanProgram& program = programs.ranks[rank];
    EXPECT_EQ(program.num_staged, 4);
    EXPECT_FALSE(program.writes_staging);
    for (const Instruction& step : program.instructions)
      if (step.op == StepOp::recv) {
        EXPECT_EQ(step.place, (ChunkPlace{Area::buffer, step.terms[0].ready.rank}));
        EXPECT_EQ(step.terms[0].place, (ChunkPlace{Area::staging, rank}));
      }
  }
}

TEST(PlanProgramTest, WhatIsRelayedInAnAllToAllGetsAPartOfItsOwn) {
  CollectivePlan plan = pairwise_all_to_all(3);
  const auto direct = [](const Step& step) { return step.chunk == 2; };  // from 0 to 2
  std::erase_if(plan.steps, direct);
  plan.send(3, 0, 2, 1);
  plan.recv(3, 1, 2, 0);
  plan.send(4, 1, 2, 2);
  plan.recv(4, 2, 2, 1);
  const PlanPrograms programs = compile(plan);
  EXPECT_EQ(programs.ranks[1].num_staged, 4);
  EXPECT_TRUE(programs.ranks[1].writes_staging);
  EXPECT_EQ(programs.ranks[2].instructions.back().terms[0].place, (ChunkPlace{Area::staging, 3}));
  EXPECT_FALSE(programs.ranks[0].writes_staging);
}

// Parts that are a rank's share of the caller's tensor are exceptions.
TEST(PlanProgramTest, PartsBeginAtMultiplesOf16Bytes) {
  const auto cut = [](const CollectivePlan& plan, DType dtype, std::int64_t count) {
    PlanData data{.dtype = dtype, .count = count};
    data.cut_for(compile(plan));
    return data;
  };
  for (int n = 1; n <= 8; ++n)
    for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32, DType::float64})
      for (const std::int64_t count : {1, 15, 16, 101, 1000, 4099}) {
        const PlanData data = cut(two_shot_all_reduce(n, 2), dtype, count);
        for (int part = 0; part < data.num_parts; ++part) {
          const ElementRange range = data.range(part);
          EXPECT_TRUE(range.begin == count || range.begin * size_bytes(dtype) % 16 == 0)
              << dtype << ", part " << part << " of " << count << " elements";
        }
        const PlanData shares = cut(ring_reduce_scatter(n), dtype, 3 * n);
        for (int part = 0; part < n; ++part)
          EXPECT_EQ(shares.range(part), (ElementRange{3 * part, 3 * part + 3}));
      }
}

// Fingerprints reveal ranks that follow different plans. With 16 bits, 1000 plans would share some.
TEST(PlanProgramTest, PlansHaveFingerprintsOfTheirOwn) {
  std::set<std::uint64_t> fingerprints;
  std::vector<int> order = {0, 1, 2, 3, 4, 5, 6};
  constexpr std::size_t kPlans = 1000;
  for (std::size_t i = 0; i < kPlans; ++i, std::next_permutation(order.begin(), order.end())) {
    CollectivePlan plan = one_shot_all_reduce(7);
    for (Step& step : plan.steps)
      if (step.op == StepOp::recv_reduce) step.peers = order;
    fingerprints.insert(compile(plan).fingerprint);
  }
  EXPECT_EQ(fingerprints.size(), kPlans);
}

TEST(PlanProgramTest, RefusesAPlanThatIsNotProved) {
  CollectivePlan plan = ring_all_reduce(3);
  plan.steps.pop_back();
  EXPECT_THROW(compile(plan), ValueError);
}

}  // namespace
}  // namespace ringrad
