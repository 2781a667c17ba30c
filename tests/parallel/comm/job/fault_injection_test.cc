#include "ringrad/parallel/comm/record/fault_injection.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "ringrad/tests/testing.h"

namespace ringrad {
namespace {

using testing::expect_throws;
using Kind = PlannedFault::Kind;
using Event = PlannedFault::Event;
using std::chrono::milliseconds;

TEST(FaultInjectionTest, ReadsEveryKindOfFault) {
  const std::vector<PlannedFault> expected = {
      {.kind = Kind::kill, .rank = 2, .event = Event::step, .number = 17},
      {.kind = Kind::stop, .rank = 1, .event = Event::call, .number = 5, .restart = 1},
      {.kind = Kind::exit, .rank = 3, .event = Event::call, .number = 40},
      {.kind = Kind::exit, .rank = 3, .exit_code = 0, .event = Event::step, .number = 1},
      {.kind = Kind::abort, .rank = 0, .event = Event::call, .number = 1},
      {.kind = Kind::delay, .rank = 0, .wait = milliseconds(50)},
      {.kind = Kind::delay,
       .rank = 1,
       .wait = milliseconds(2000),
       .event = Event::step,
       .number = 3},
      {.kind = Kind::kill,
       .rank = 1,
       .event = Event::point,
       .point = FaultPoint::bucket_launched,
       .number = 1},
      {.kind = Kind::stop,
       .rank = 2,
       .event = Event::point,
       .point = FaultPoint::pipeline_action_done,
       .number = 5}};
  EXPECT_EQ(parse_faults("kill:2@step=17,stop:1@restart=1@call=5,exit:3@call=40,exit:3=0@step=1,"
                         "abort:0@call=1,delay:0=50ms,delay:1=2s@step=3,"
                         "kill:1@point=bucket_launched,stop:2@point=pipeline_action_done:5",
                         4),
            expected);
  EXPECT_TRUE(parse_faults("", 1).empty());
}

TEST(FaultInjectionTest, SaysWhatAFaultMustBe) {
  const std::pair<const char*, const char*> plans[] = {
      {"kil:2@step=1", "a fault must be KIND:RANK[=VALUE]"},
      {"kill", "got \"kill\""},
      {"kill:0@step=1,,", "got \"\""},
      {"kill:4@step=1", "the rank must be a number in [0, 3]; got \"4\" in kill:4@step=1"},
      {"kill:-1@step=1", "the rank must be a number in [0, 3]; got \"-1\""},
      {"kill:@step=1", "the rank must be a number in [0, 3]; got \"\""},
      {"kill:1", "must say when, as @step=17 or @call=40; got kill:1"},
      {"kill:1=3@step=1", "only exit and delay may have a value; got kill:1=3@step=1"},
      {"exit:1=256@step=1", "the exit code must be a number in [0, 255]; got \"256\""},
      {"exit:1=@step=1", "the exit code must be a number in [0, 255]; got \"\""},
      {"delay:1", "a delay must say how long, as delay:0=50ms or delay:0=2s; got delay:1"},
      {"delay:1=50", "a delay must say how long"},
      {"delay:1=xms", "a delay must be a number in [0, 1000000]; got \"x\""},
      {"kill:1@step=0", "a step or call must be a number in [1, "},
      {"kill:1@step=1@call=2", "a fault must have one step, call or point; got two"},
      {"kill:1@epoch=1",
       "after @ must stand step=N, call=N, point=NAME or restart=N; got \"epoch=1\""},
      {"kill:1@point=bucket",
       "a point must be bucket_launched or pipeline_action_done; got \"bucket\""},
      {"kill:1@point=bucket_launched:0", "a passage of a point must be a number in [1, "},
      {"kill:1@step", "a step or call must be a number"},
      {"kill:1@step=1@restart=-1", "the restart must be a number in [0, "}};
  for (const auto& [plan, text] : plans)
    expect_throws<ValueError>([&] { parse_faults(plan, 4); }, text);
}

TEST(FaultInjectionTest, CountsStepsAndCallsOfOneRank) {
  FaultInjection injection(parse_faults("exit:0=7@step=3,exit:0=8@call=2", 1));
  injection.step();
  injection.step();
  injection.call();
  EXPECT_EXIT(injection.step(), ::testing::ExitedWithCode(7),
              "ringrad inject: rank 0 exits with code 7 at step 3\n");
  EXPECT_EXIT(injection.call(), ::testing::ExitedWithCode(8),
              "ringrad inject: rank 0 exits with code 8 at call 2\n");
}

TEST(FaultInjectionTest, CountsPassagesOfEachPoint) {
  FaultInjection injection(parse_faults("exit:0=7@point=bucket_launched:2", 1));
  injection.pass(FaultPoint::bucket_launched);
  injection.pass(FaultPoint::pipeline_action_done);
  injection.pass(FaultPoint::pipeline_action_done);
  EXPECT_EXIT(injection.pass(FaultPoint::bucket_launched), ::testing::ExitedWithCode(7),
              "ringrad inject: rank 0 exits with code 7 at bucket_launched 2\n");
}

TEST(FaultInjectionTest, DoesToItselfWhatIsPlanned) {
  EXPECT_EXIT(FaultInjection(parse_faults("kill:0@call=1", 1)).call(),
              ::testing::KilledBySignal(SIGKILL),
              "ringrad inject: rank 0 kills itself at call 1\n");
  EXPECT_EXIT(FaultInjection(parse_faults("abort:0@call=1", 1)).call(),
              ::testing::KilledBySignal(SIGABRT), "ringrad inject: rank 0 aborts at call 1\n");
  FaultInjection injection(parse_faults("delay:0=30ms", 1));
  for (int i = 0; i < 2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    injection.call();
    EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(30));
  }
}

// Faults as a process receives them, in its environment.
class PlannedFaultTest : public ::testing::Test {
 protected:
  ~PlannedFaultTest() override {
    for (const char* name : {"RINGRAD_INJECT", "RANK", "WORLD_SIZE", "RINGRAD_RESTART_COUNT"})
      unsetenv(name);
  }

  // Exits with 7 if the plan has a fault for this rank in this run, else with 0.
  static void step_in(const char* rank, const char* restart,
                      const char* plan = "exit:1=7@step=1,exit:2=7@step=1@restart=1") {
    setenv("RINGRAD_INJECT", plan, 1);
    if (rank) {
      setenv("RANK", rank, 1);
      setenv("WORLD_SIZE", "3", 1);
    }
    setenv("RINGRAD_RESTART_COUNT", restart, 1);
    fault_step();
    fault_point(FaultPoint::bucket_launched);
    std::_Exit(0);
  }
};

TEST_F(PlannedFaultTest, ArmsTheFaultPoints) {
  fault_point(FaultPoint::bucket_launched);  // nothing is planned
  const char* const plan = "exit:1=7@point=bucket_launched";
  EXPECT_EXIT(step_in("1", "0", plan), ::testing::ExitedWithCode(7), "at bucket_launched 1\n");
  EXPECT_EXIT(step_in("2", "0", plan), ::testing::ExitedWithCode(0), "");
}

TEST_F(PlannedFaultTest, IsForOneRankInOneRun) {
  EXPECT_EXIT(step_in("1", "0"), ::testing::ExitedWithCode(7), "rank 1 exits with code 7");
  EXPECT_EXIT(step_in("1", "1"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(step_in("2", "0"), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(step_in("2", "1"), ::testing::ExitedWithCode(7), "rank 2 exits with code 7");
  EXPECT_EXIT(step_in(nullptr, "0"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ringrad
