// The examples of local and asynchronous training give the results that they claim on threads,
// processes and GPUs, and over other libraries.

#include <gtest/gtest.h>

#include <string>

#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

std::vector<std::string> over_every_backend(const std::string& example, int n,
                                            const std::string& arguments = "") {
  auto commands = testing::every_way(example, n, arguments);
  const std::string program = "examples/" + example + ' ' + arguments, count = std::to_string(n);
  commands.push_back("tools/src/ringrun -n " + count + ' ' + program + " --backend gloo");
  commands.push_back(testing::mpirun(n) + program + " --backend mpi");
  return commands;
}

std::string output_of(const std::string& command) {
  SCOPED_TRACE(command);
  const Outcome outcome = run(command + " 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 0) << command;
  return testing::without_ranks(outcome.output);
}

// The number after `label` in `text`.
double number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  if (at != std::string::npos) return std::stod(text.substr(at + label.size()));
  ADD_FAILURE() << "there must be \"" << label << "\" in: " << text;
  return -1;
}

TEST(LocalSGDExampleTest, LongerPeriodsSendLessAndLearn) {
  // An epoch has 8 steps on all ranks. 3 epochs make 24, 6, 2 or 1 averages of 387 numbers.
  for (const std::string& command : over_every_backend("local_sgd", 2, "--epochs 3")) {
    const std::string output = output_of(command);
    EXPECT_NEAR(number_after(output, "period  1: loss "), 0.811, 0.01) << command;
    EXPECT_NEAR(number_after(output, "period 16: loss "), 0.822, 0.01) << command;
    for (const char* bytes : {" 37152 bytes", "  9288 bytes", "  3096 bytes", "  1548 bytes"})
      EXPECT_NE(output.find(bytes), std::string::npos) << command << ": " << output;
  }
}

// The result with staleness 0 is the same wherever it runs on the CPU.
TEST(AsynchronousSGDExampleTest, BoundsHoldAndStalenessZeroIsTheSameEverywhere) {
  std::string expected;
  for (const std::string& command : over_every_backend("asynchronous_sgd", 3, "--steps 30")) {
    const std::string output = output_of(command);
    const std::string first = output.substr(0, output.find('\n'));
    EXPECT_NE(
        first.find("steps of the workers 30 30; ahead of the slowest by 0.0 steps on average, "
                   "0 at most"),
        std::string::npos)
        << command << ": " << output;
    if (command.find("cuda") == std::string::npos) {
      if (expected.empty()) expected = first;
      EXPECT_EQ(first, expected) << command;
    }
    for (const int staleness : {1, 4, 16}) {
      const std::size_t line =
          output.find(staleness < 10 ? "staleness  " + std::to_string(staleness) : "staleness 16");
      ASSERT_NE(line, std::string::npos) << command << ": " << output;
      EXPECT_LT(number_after(output.substr(line), ": loss "), 1.1) << command;
      EXPECT_LE(number_after(output.substr(line), "on average, "), staleness) << command;
    }
  }
}

TEST(AsynchronousSGDExampleTest, NeedsAWorker) {
  const Outcome outcome = run("examples/asynchronous_sgd --world-size 1 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("there must be a worker"), std::string::npos) << outcome.output;
}

// The launcher ends the ranks that have not ended by themselves. Other tests check that all ranks
// learn which rank failed.
TEST(AsynchronousSGDExampleTest, EndsWhenAWorkerIsKilled) {
  const Outcome outcome =
      run("tools/src/ringrun -n 3 --inject kill:2@step=7 examples/asynchronous_sgd 2>&1");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("rank 2"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace ringrad
