#include "ringrad/parallel/plan/file/plan_json.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "ringrad/parallel/plan/collective/ring_plan.h"
#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/parallel/plan/collective/every_plan.h"
#include "ringrad/tests/parallel/plan/refused.h"

namespace ringrad {
namespace {

TEST(PlanJsonTest, EveryPlanComesBackEqual) {
  for (Collective collective : kAllCollectives)
    for (int n = 1; n <= 6; ++n)
      for_every_plan(collective, n, [](const CollectivePlan& plan) {
        EXPECT_EQ(collective_plan_from_json(to_json(plan)), plan);
      });
}

TEST(PlanJsonTest, NamesMayHoldAnything) {
  CollectivePlan plan;
  plan.algorithm = "a \"quoted\"\nname \\ ä";
  EXPECT_EQ(collective_plan_from_json(to_json(plan)), plan);
}

TEST(PlanJsonTest, WhatIsWrittenCanBeRead) {
  CollectivePlan plan;
  plan.algorithm = std::string(std::size_t{17} << 20, 'x');
  EXPECT_TRUE(collective_plan_from_json(to_json(plan)) == plan);
  plan.algorithm = std::string(std::size_t{64} << 20, 'x');
  expect_refused([&] { to_json(plan); },
                 "collective plan: the text must have at most 67108864 bytes; got 67108");
}

TEST(PlanJsonTest, IsReadableByPeople) {
  CollectivePlan plan = empty_plan(Collective::broadcast, "mine", 2);
  plan.send(0, 0, 0, 1);
  plan.recv(0, 1, 0, 0);
  EXPECT_EQ(to_json(plan),
            "{\n"
            "  \"collective\": \"broadcast\", \"algorithm\": \"mine\", \"world_size\": 2, "
            "\"num_chunks\": 1, \"root\": 0,\n"
            "  \"steps\": [\n"
            "    {\"step\": 0, \"rank\": 0, \"op\": \"send\", \"chunk\": 0, \"peers\": [1]},\n"
            "    {\"step\": 0, \"rank\": 1, \"op\": \"recv\", \"chunk\": 0, \"peers\": [0]}\n"
            "  ]\n"
            "}\n");
}

// The message for the plan above with `from` replaced by `to`.
std::string error_after(const std::string& from, const std::string& to) {
  std::string text = to_json(ring_all_reduce(2));
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  try {
    collective_plan_from_json(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(PlanJsonTest, ErrorsNameTheField) {
  EXPECT_EQ(error_after("\"world_size\": 2, ", ""),
            "collective plan: world_size must be there; got none");
  EXPECT_EQ(error_after("\"all_reduce\"", "\"all_redude\""),
            "collective plan: collective must be one of all_reduce, reduce_scatter, all_gather, "
            "broadcast, reduce, all_to_all; got \"all_redude\"");
  EXPECT_EQ(error_after("\"num_chunks\": 2", "\"num_chunks\": 2.5"),
            "collective plan: num_chunks must be a 32-bit integer; got 2.5");
  EXPECT_EQ(error_after("\"num_chunks\": 2", "\"num_chunks\": 4294967297"),
            "collective plan: num_chunks must be a 32-bit integer; got 4294967297");
  EXPECT_EQ(error_after("\"ring\"", "7"), "collective plan: algorithm must be a string; got 7");
  EXPECT_EQ(error_after("\"root\": 0", "\"root\": 0, \"colour\": 1"),
            "collective plan: the text must have known fields only; got \"colour\"");
}

TEST(PlanJsonTest, ErrorsNameTheStep) {
  EXPECT_EQ(error_after("\"recv_reduce\"", "\"add\""),
            "collective plan: steps[2].op must be one of send, recv, recv_reduce, stage, "
            "send_staged; got \"add\"");
  EXPECT_EQ(error_after("[1,0]", "[1,true]"),
            "collective plan: steps[2].peers[1] must be a 32-bit integer; got true");
  EXPECT_EQ(error_after("[1,0]", "1"), "collective plan: steps[2].peers must be a list; got 1");
  EXPECT_EQ(error_after("\"chunk\": 0, ", ""),
            "collective plan: steps[1].chunk must be there; got none");
  EXPECT_EQ(error_after("\"chunk\": 0, ", "\"chunk\": 0, \"chunks\": 1, "),
            "collective plan: steps[1] must have known fields only; got \"chunks\"");
}

TEST(PlanJsonTest, RefusesDeepNestingWherePlansHaveValues) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const char* value : {"2,", "\"ring\"", "[1,0]"})
    EXPECT_EQ(error_after(value, deep + (value[1] == ',' ? "," : "")),
              "collective plan: the text must be nested at most 32 deep; got more");
}

TEST(PlanJsonTest, ErrorsShowLongValuesInPart) {
  const std::string error = error_after("\"ring\"", "[" + std::string(100'000, '1') + "e-99999]");
  EXPECT_LT(error.size(), 300u) << error;
}

TEST(PlanJsonTest, ErrorsSayWhereTheTextIsNoJson) {
  const std::string error = error_after("[1,0]", "[1,0");
  EXPECT_EQ(error.substr(0, 44), "collective plan: the text must be JSON; got ");
  EXPECT_NE(error.find("line 6"), std::string::npos) << error;
  EXPECT_THROW(collective_plan_from_json("[]"), std::invalid_argument);
  EXPECT_THROW(collective_plan_from_json(""), std::invalid_argument);
}

TEST(PlanJsonTest, APlanComesBackEqualInEveryLocale) {
  CollectivePlan plan = empty_plan(Collective::broadcast, "mine", 1234);
  plan.send(0, 0, 0, 1233);
  const testing::ForeignNumbers guard;
  EXPECT_EQ(collective_plan_from_json(to_json(plan)), plan);
}

}  // namespace
}  // namespace ringrad
