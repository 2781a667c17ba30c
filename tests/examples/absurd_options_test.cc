// Absurd arguments end a program at once, with one line that names the option, and exit code 2.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

void expect_refused(const std::string& program, const std::string& arguments,
                    const std::string& why) {
  const Outcome outcome = run("examples/" + program + ' ' + arguments + " 2>&1");
  EXPECT_EQ(outcome.exit_code, 2) << arguments;
  EXPECT_EQ(outcome.output, program + ": " + why + " (see --help)\n");
}

TEST(AbsurdOptionsTest, NumbersHaveRanges) {
  // A micro-batch is eight images: this many would take 5.8 GB, and then another 5.8 GB.
  expect_refused("pipeline", "--micro-batches 1000000000",
                 "--micro-batches: must be a whole number in [1, 512]; got \"1000000000\"");
  expect_refused("pipeline", "--steps 0",
                 "--steps: must be a whole number in [1, 1000000]; got \"0\"");
  expect_refused("restart_after_crash", "--epochs -3",
                 "--epochs: must be a whole number in [1, 1000000]; got \"-3\"");
  expect_refused("fashion_mnist", "--seed -1",
                 "--seed: must be a whole number in [0, 9223372036854775807]; got \"-1\"");
  expect_refused("fashion_mnist", "--learning-rate nan",
                 "--learning-rate: must be a number in [1e-12, 1000]; got \"nan\"");
  expect_refused("fashion_mnist", "--momentum nan",
                 "--momentum: must be a number in [0, 0.9999]; got \"nan\"");
  expect_refused("fashion_mnist", "--weight-decay inf",
                 "--weight-decay: must be a number in [0, 1000]; got \"inf\"");
  expect_refused("fashion_mnist", "--train-images 99999999999999999999",
                 "--train-images: must be a whole number in [0, 1048576]; got "
                 "\"99999999999999999999\"");
}

TEST(AbsurdOptionsTest, AFileThatCannotBeWrittenIsRefusedBeforeTheWork) {
  expect_refused("pipeline", "--json /nonexistent/x",
                 "--json: the file must be writable; got \"/nonexistent/x\"");
}

// The file can be opened, but writes to it meet a full disk.
TEST(AbsurdOptionsTest, AFileThatIsNotWrittenIsAFailure) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Outcome outcome =
      run("examples/pipeline --schedule 1f1b --steps 1 --json /dev/full 2>&1 >/dev/null");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("--json: the file must be writable; got /dev/full"),
            std::string::npos)
      << outcome.output;
}

TEST(AbsurdOptionsTest, ArgumentsAreShownInOneLine) {
  const Outcome outcome = run("examples/pipeline --schedule \"$(printf '\\033[2J\\na')\" 2>&1");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1);
  EXPECT_EQ(outcome.output.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace ringrad
