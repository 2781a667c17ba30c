// Parallel branches compute the same as the plain network, on the CPU and on GPUs.

#include <gtest/gtest.h>

#include <string>

#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

TEST(BranchesExampleTest, TheNumbersAreThoseOfThePlainNetwork) {
  for (const std::string device : {"cpu", "cuda"})
    for (const std::string mode : {"side_by_side", "in_turn"}) {
      const std::string command =
          "examples/branches --steps 4 --batch 4 --size 8 --channels 8 --device " + device +
          " --mode " + mode + " 2>/dev/null";
      const Outcome outcome = run(command);
      EXPECT_EQ(outcome.exit_code, 0) << command;
      EXPECT_NE(outcome.output.find("have the bits of the plain network's\n"), std::string::npos)
          << command << ": " << outcome.output;
    }
}

TEST(BranchesExampleTest, AutomaticMeasuresBothWaysAndAdvises) {
  const Outcome outcome = run("examples/branches --mode automatic --steps 13 --batch 2 --size 8");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("block 2: Branches(sum) for x (2, 16, 8, 8)"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(outcome.output.find("not known"), std::string::npos) << outcome.output;
}

TEST(BranchesExampleTest, ShowsHelpAndRefusesWrongArguments) {
  EXPECT_NE(run("examples/branches --help").output.find("--threads"), std::string::npos);
  EXPECT_GT(run("examples/branches --mode fast 2>/dev/null").exit_code, 0);
  EXPECT_GT(run("examples/branches --batch 0 2>/dev/null").exit_code, 0);
}

}  // namespace
}  // namespace ringrad
