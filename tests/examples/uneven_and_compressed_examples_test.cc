// The examples of accumulated gradients, compressed gradients and unequal numbers of samples print
// the same on threads, processes and GPUs.

#include <gtest/gtest.h>

#include <string>

#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

// The output of the command, without ringrun's rank prefixes.
std::string printed_by(const std::string& command) {
  const Outcome outcome = run(command + " 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 0) << command;
  return testing::without_ranks(outcome.output);
}

void expect_text(const std::string& output, const std::string& text) {
  EXPECT_NE(output.find(text), std::string::npos) << text << " is not in:\n" << output;
}

// The number after the text.
double number_after(const std::string& output, const std::string& text, std::size_t from = 0) {
  const std::size_t at = output.find(text, from);
  if (at == std::string::npos) {
    ADD_FAILURE() << text << " is not in:\n" << output;
    return 0;
  }
  return std::stod(output.substr(at + text.size()));
}

TEST(GradientAccumulationExampleTest, ReducesOncePerStepAndLearnsTheSame) {
  for (const std::string& command : testing::every_way("gradient_accumulation", 2, "--parts 3")) {
    const std::string output = printed_by(command);
    expect_text(output, "16 steps of 3 parts: 48 backward passes, 16 reductions\n");
    EXPECT_LT(number_after(output, "loss of the last part: "), 0.95) << command;  // log 3 = 1.1
    EXPECT_LT(number_after(output, "weights differ by at most "), 1e-5) << command;
  }
}

// Simulated GPUs run one epoch, which is enough to count the bytes sent.
TEST(GradientCompressionExampleTest, SendsFewerBytesAndLearnsAboutAsWell) {
  const auto long_ones = testing::every_way("gradient_compression", 2);
  const auto short_ones = testing::every_way("gradient_compression", 2, "--epochs 1");
  for (const std::string& command : {long_ones[0], long_ones[1], short_ones[2]}) {
    const bool learns = command != short_ones[2];
    const std::string output = printed_by(command);
    const double whole = number_after(output, "as they are     "),
                 loss = number_after(output, "bytes a step, loss ");
    EXPECT_GE(whole, 4 * (2 * 64 + 64 + 64 * 64 + 64 + 64 * 3 + 3));
    if (learns) {
      EXPECT_LT(loss, 0.3) << command;  // log 3 = 1.1
    }
    for (const auto& [name, most] : {std::pair("float16", 0.5), std::pair("largest 10 %", 0.21),
                                     std::pair("PowerSGD, rank 4", 0.3)}) {
      EXPECT_LE(number_after(output, name), most * whole) << name;
      if (learns) {
        EXPECT_LT(number_after(output, "loss ", output.find(name)), loss + 0.1) << name;
      }
    }
    EXPECT_EQ(output.find("differ"), std::string::npos) << output;
  }
}

TEST(UnevenInputsExampleTest, EveryRankTakesEveryStep) {
  for (const std::string& command : testing::every_way("uneven_inputs", 3)) {
    const std::string output = printed_by(command);
    expect_text(output, "rank 0: 200 samples, 28 batches, 24 steps without data\n");
    expect_text(output, "rank 1: 300 samples, 40 batches, 12 steps without data\n");
    expect_text(output, "rank 2: 400 samples, 52 batches, 0 steps without data\n");
    expect_text(output, "3 replicas are identical, bit by bit\n");
    EXPECT_LT(number_after(output, "loss "), 0.95) << command;  // log 3 = 1.1
  }
}

}  // namespace
}  // namespace ringrad
