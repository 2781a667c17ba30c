// The examples of data parallel training print the same on threads, processes and GPUs.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "ringrad/tests/examples/commands.h"

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
  expect_complaint("tools/src/ringrun -n 2 " + example + "--backend threads",
                   "got threads of a launcher");
}

// Every number of ranks must come close to the result of 1 rank.
TEST(ResidualBlockExampleTest, RanksComputeWhatOneComputesEverywhere) {
  constexpr auto kNumber = [](const std::string& text, const std::string& before) {
    const std::size_t at = text.find(before);
    EXPECT_NE(at, std::string::npos) << before << " in: " << text;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + before.size()));
  };
  const std::string of_one = run("examples/residual_block --world-size 1").output;
  EXPECT_EQ(kNumber(of_one, "whole batch: "), 0) << of_one;
  for (const std::string& command : testing::every_way("residual_block", 3)) {
    const Outcome outcome = run(command + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    const std::string output = testing::without_ranks(outcome.output);
    EXPECT_NE(output.find("3 replicas are identical, bit by bit"), std::string::npos) << output;
    EXPECT_LT(kNumber(output, "whole batch: "), 1e-4) << command;
    for (const char* step : {"step 1: loss ", "step 10: loss "})
      EXPECT_NEAR(kNumber(output, step), kNumber(of_one, step), 1e-4) << command;
    EXPECT_LT(kNumber(output, "step 10: loss "), kNumber(output, "step 1: loss ")) << command;
  }
  EXPECT_GT(run("examples/residual_block --world-size 5 2>/dev/null").exit_code, 0);
}

TEST(DataParallelExampleTest, SeveralDevicesTrainLikeOne) {
  for (const std::string device : {"cpu", "cuda"}) {
    const Outcome outcome =
        run("examples/data_parallel --devices 3 --steps 6 --device " + device + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << device;
    const std::string& output = outcome.output;
    EXPECT_NE(output.find(device + ":0: 43 images"), std::string::npos) << output;
    EXPECT_NE(output.find(device + ":2: 42 images"), std::string::npos) << output;
    const auto number_after = [&](const std::string& text) {
      const std::size_t at = output.find(text);
      EXPECT_NE(at, std::string::npos) << text << " in " << output;
      return at == std::string::npos ? NAN : std::stod(output.substr(at + text.size()));
    };
    EXPECT_LT(number_after("step 6: loss "), 0.8 * number_after("step 1: loss ")) << output;
    EXPECT_LT(number_after("parameters differ by at most "), 1e-5) << output;
  }
}

TEST(ShardedOptimizerExampleTest, SavesMemoryAndGivesTheSameBitsEverywhere) {
  for (const std::string& command : testing::every_way("sharded_optimizer", 3)) {
    const Outcome outcome = run(command + " --epochs 2 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    const std::string output = testing::without_ranks(outcome.output);
    EXPECT_NE(output.find("3 replicas are identical, and their bits are those with replicated"),
              std::string::npos)
        << command << ": " << output;
    // Six tensors lie in an arena of 672 pieces of 64 bytes, and Adam keeps two numbers for each
    // number in it.
    EXPECT_NE(output.find("on each rank: 86016 replicated, sharded 28672 28672 28672\n"),
              std::string::npos)
        << command << ": " << output;
  }
}

}  // namespace
}  // namespace ringrad
