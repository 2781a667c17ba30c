// The language model learns a small text, and learns the same however it is split over ranks.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "ringrad/tests/examples/commands.h"
#include "ringrad/tests/nn/checkpoint/folder.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;
using Json = nlohmann::json;

class GPTExampleTest : public ::testing::Test {
 protected:
  GPTExampleTest() {
    std::ofstream text(path("text"));
    for (int i = 0; i < 200; ++i)
      text << "the ring has " << i % 10 << " ranks, each adds its part. ";
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  std::string command(const std::string& arguments) const {
    return "examples/gpt --text " + path("text") + " --curve " + path("loss.svg") +
           " --layers 2 --heads 2 --width 32 --context 32 --batch 8 --warmup 2 --every 4 " +
           arguments;
  }

  /// What rank 0 prints last.
  static Json summary(const std::string& command) {
    const Outcome outcome = run("OMP_NUM_THREADS=1 " + command + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << command;
    return Json::parse(testing::last_line(testing::without_ranks(outcome.output)), nullptr, false);
  }

  const testing::Folder folder_;
};

TEST_F(GPTExampleTest, EverySplitHasTheSameLosses) {
  const Json whole = summary(command("--steps 6 --world-size 1"));
  for (const std::string split :
       {"--world-size 2", "--world-size 2 --sharded", "--world-size 2 --pipeline 2",
        "--world-size 2 --tensor 2", "--world-size 8 --pipeline 2 --tensor 2 --micro-batches 2",
        "--world-size 8 --pipeline 2 --tensor 2 --micro-batches 4 --sharded"}) {
    SCOPED_TRACE(split);
    const Json result = summary(command("--steps 6 " + split));
    EXPECT_NEAR(result["loss"], whole["loss"], 1e-5 * whole["loss"].get<double>());
    EXPECT_NEAR(result["test_loss"], whole["test_loss"], 1e-5 * whole["test_loss"].get<double>());
    EXPECT_EQ(result["parameters"], whole["parameters"]);
  }
}

TEST_F(GPTExampleTest, ProcessesHaveTheLossesOfThreads) {
  const std::string split = "--steps 6 --pipeline 2 --tensor 2";
  EXPECT_EQ(summary("tools/src/ringrun -n 4 " + command(split))["loss"],
            summary(command(split + " --world-size 4"))["loss"]);
}

TEST_F(GPTExampleTest, LearnsTheText) {
  const Json result = summary(command("--steps 250 --learning-rate 0.01"));
  EXPECT_LT(result["test_loss"], 0.3);  // 5.5 at first, 2.9 for one who only counts letters
  std::ifstream curve(path("loss.svg"));
  const std::string svg{std::istreambuf_iterator<char>(curve), {}};
  EXPECT_NE(svg.find("test"), std::string::npos);
}

TEST_F(GPTExampleTest, ARestartedJobEndsWithTheLossOfAnUndisturbedOne) {
  const std::string job = "tools/src/ringrun -n 2 ", steps = "--steps 10 --checkpoint ";
  const Json undisturbed = summary(job + command(steps + path("a")));
  const Json restarted =
      summary(job + "--max-restarts 1 --inject kill:1@step=6 " + command(steps + path("b")));
  EXPECT_EQ(restarted["loss"], undisturbed["loss"]);
  EXPECT_EQ(restarted["test_loss"], undisturbed["test_loss"]);
}

TEST_F(GPTExampleTest, RefusesSplitsThatDoNotFit) {
  for (const auto& [arguments, message] :
       {std::pair{"--world-size 3 --pipeline 2", "--pipeline times --tensor must divide the ranks"},
        {"--world-size 3", "--batch must be a multiple"},
        {"--world-size 4 --tensor 4", "parts must divide the heads"},
        {"--world-size 1 --text /nowhere", "/nowhere"}}) {
    const Outcome outcome = run(command(arguments) + " 2>&1");
    EXPECT_NE(outcome.exit_code, 0) << arguments;
    EXPECT_NE(outcome.output.find(message), std::string::npos) << outcome.output;
  }
}

}  // namespace
}  // namespace ringrad
