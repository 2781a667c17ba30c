// Examples of data parallel training print the same on threads, processes and GPUs.

#include <gtest/gtest.h>

#include <string>

#include "tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

TEST(DistributedDataParallelExampleTest, LearnsAndReplicasStayIdenticalEverywhere) {
  for (const std::string& command : testing::every_way("distributed_data_parallel", 2)) {
    const Outcome outcome = run(command + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    const std::string output = testing::without_ranks(outcome.output);
    EXPECT_NE(output.find("2 replicas are identical, bit by bit"), std::string::npos)
        << command << ": " << output;
    const std::string last = "epoch 4: loss of the last batch ";
    const std::size_t at = output.find(last);
    ASSERT_NE(at, std::string::npos) << output;
    EXPECT_LT(std::stod(output.substr(at + last.size())), 0.95) << command;  // log 3 = 1.1
  }
}

TEST(DistributedDataParallelExampleTest, WrongArgumentsAreNamed) {
  const auto expect_complaint = [](const std::string& command, const std::string& text) {
    const Outcome outcome = run(command + " 2>&1");
    EXPECT_GT(outcome.exit_code, 0) << command;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << command << ": " << outcome.output;
  };
  const std::string example = "examples/distributed_data_parallel ";
  expect_complaint(example + "--world-size 257", "--world-size");
  expect_complaint(example + "--backend gloo", "got gloo without one");
  expect_complaint(example + "--nccl", "needs --device cuda; got cpu");
  expect_complaint("RANK=2 WORLD_SIZE=2 " + example, "got");
  expect_complaint("parallel/comm/ringrun -n 2 " + example + "--backend threads",
                   "got threads of a launcher");
}

}  // namespace
}  // namespace ringrad
