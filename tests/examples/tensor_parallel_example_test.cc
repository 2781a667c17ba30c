// The tensor parallel example learns the same as the unsplit network, on threads, processes and
// GPUs.

#include <gtest/gtest.h>

#include <string>

#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

double number_after(const std::string& output, const std::string& text) {
  const std::size_t at = output.find(text);
  EXPECT_NE(at, std::string::npos) << text << " is not in:\n" << output;
  return at == std::string::npos ? 1e9 : std::stod(output.substr(at + text.size()));
}

// The parameters are 2 * 64 + 64, 64 * 64 + 64 and 64 * 3 + 3. The first layer and the second
// layer's weight are split.
TEST(TensorParallelExampleTest, LearnsWhatTheUnsplitNetworkDoesEverywhere) {
  for (const auto& [tensor, parameters] :
       {std::pair("2", "2403 of 4547"), std::pair("4", "1331 of 4547")})
    for (const std::string& command :
         testing::every_way("tensor_parallel", 4, std::string("--tensor ") + tensor)) {
      const Outcome outcome = run(command + " 2>/dev/null");
      EXPECT_EQ(outcome.exit_code, 0) << command;
      const std::string output = testing::without_ranks(outcome.output);
      EXPECT_NE(output.find(parameters), std::string::npos) << output;
      EXPECT_LT(number_after(output, "loss of the last batch: "), 0.95) << command;  // log 3 = 1.1
      EXPECT_LT(number_after(output, "weights differ by at most "), 1e-4) << command;
    }
}

TEST(TensorParallelExampleTest, RanksThatDoNotMakeAGridAreRefused) {
  const Outcome outcome = run("examples/tensor_parallel --world-size 4 --tensor 3 2>&1");
  EXPECT_GT(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("got 1 x 3 for 4 ranks"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace ringrad
