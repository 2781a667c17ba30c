// Pipelines as users run them: on threads, processes and GPUs.

#include <gtest/gtest.h>

#include <string>

#include "ringrad/parallel/plan/pipeline/pipeline_schedules.h"
#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

// The text after the last `text`.
double number_after(const std::string& output, const std::string& text) {
  const std::size_t at = output.rfind(text);
  EXPECT_NE(at, std::string::npos) << text << " is not in:\n" << output;
  return at == std::string::npos ? 1e9 : std::stod(output.substr(at + text.size()));
}

TEST(PipelineExampleTest, EveryScheduleGivesTheBitsOfTheWholeModelEverywhere) {
  for (const std::string& command : testing::every_way("pipeline", 4, "--steps 2", "--steps 1")) {
    const Outcome outcome = run(command + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(count(outcome.output, "have the bits of the whole model trained alone"),
              pipeline_schedule_names().size())
        << command << '\n'
        << outcome.output;
  }
}

TEST(PipelineExampleTest, ARunCanBeDrawn) {
  const Outcome outcome = run(
      "cd $TEST_TMPDIR && E=$OLDPWD && $E/examples/pipeline --world-size 2 --schedule 1f1b --json "
      "run.json "
      "&& $E/tools/src/draw pipeline --measured run.json -o run.svg 2>&1 && grep -c "
      "'<rect' "
      "run.svg");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  // Sixteen forward and as many backward passes, planned and measured.
  EXPECT_GE(std::stoi(testing::last_line(outcome.output)), 64);
}

TEST(PipelineExampleTest, WrongArgumentsAreRefused) {
  EXPECT_NE(run("examples/pipeline --schedule 2f2b 2>/dev/null").exit_code, 0);
  const Outcome outcome =
      run("examples/pipeline --world-size 3 --schedule interleaved --micro-batches 4 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("got 4 for 3 devices"), std::string::npos) << outcome.output;
}

TEST(HybridExampleTest, ReplicasOfStagesStayIdenticalAndLearnEverywhere) {
  for (const std::string arguments : {"--stages 2", "--stages 4", "--stages 2 --sharded"})
    for (const std::string& command : testing::every_way("hybrid", 4, arguments)) {
      // Four stages are slow on simulated GPUs, where two stages run.
      if (arguments == "--stages 4" && command.find("cuda") != command.npos) continue;
      const Outcome outcome = run(command + " 2>/dev/null");
      EXPECT_EQ(outcome.exit_code, 0) << command;
      EXPECT_EQ(count(outcome.output, "are identical, bit by bit"), 1u) << command << '\n'
                                                                        << outcome.output;
      EXPECT_LT(number_after(outcome.output, "loss "), 1.0) << command;  // log 4 = 1.39
    }
  const Outcome outcome = run("examples/hybrid --world-size 4 --stages 3 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("--stages must divide the number of ranks; got 3 and 4"),
            std::string::npos)
      << outcome.output;
}

TEST(BalancedPipelineExampleTest, ShowsTheBottleneckAndTheCutThatMendsIt) {
  for (const std::string& command : testing::every_way("balanced_pipeline", 2, "", "--steps 1")) {
    const Outcome outcome = run(command + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(count(outcome.output, "measured: "), 2u) << outcome.output;
    EXPECT_GE(count(outcome.output, "bottleneck"), 2u) << outcome.output;
  }
}

}  // namespace
}  // namespace ringrad
