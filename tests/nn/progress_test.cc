// Progress in a stream that is no terminal.

#include "ringrad/nn/progress.h"

#include <gtest/gtest.h>

#include <sstream>

#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using testing::expect_throws;

// The first line; what follows depends on the clock.
std::string without_rates(const std::string& text) {
  return text.substr(0, text.find("  ", text.find("loss")));
}

TEST(ProgressTest, ShowsTheEpochTheStepsAndTheValues) {
  std::ostringstream out;
  Progress progress(3, 4, out);
  progress.step(32, {{"loss", 0.41268}, {"accuracy", 0.5}});
  EXPECT_EQ(without_rates(out.str()), "epoch 1/3 [=====>              ] 1/4  loss 0.4127");
  EXPECT_NE(out.str().find("  accuracy 0.5  "), std::string::npos) << out.str();
  EXPECT_NE(out.str().find(" samples/s  ETA 0:00\n"), std::string::npos) << out.str();
}

TEST(ProgressTest, ALogGetsTheFirstAndTheLastStepOfAFastEpoch) {
  std::ostringstream out;
  {
    Progress progress(2, 10, out);
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int step = 0; step < 10; ++step) progress.step(1);
      progress.end_epoch({{"test accuracy", 0.9}});
    }
  }
  std::istringstream lines(out.str());
  std::string line;
  for (const std::string expected :
       {"epoch 1/2 [==>                 ] 1/10  ", "epoch 1/2 [====================] 10/10  ",
        "  test accuracy 0.9", "epoch 2/2 [==>                 ] 1/10  ",
        "epoch 2/2 [====================] 10/10  ", "  test accuracy 0.9"}) {
    std::getline(lines, line);
    EXPECT_TRUE(line.starts_with(expected)) << line;
  }
  EXPECT_FALSE(std::getline(lines, line)) << line;
}

TEST(ProgressTest, AnEpochMayEndEarly) {
  std::ostringstream out;
  Progress progress(2, 10, out);
  progress.step(1);
  progress.end_epoch();
  progress.step(1);
  EXPECT_NE(out.str().find("\nepoch 2/2 [==>"), std::string::npos) << out.str();
}

TEST(ProgressTest, RefusesWhatDoesNotFit) {
  std::ostringstream out;
  expect_throws<ValueError>([&] { Progress(0, 1, out); }, "at least one epoch; got 0");
  expect_throws<ValueError>([&] { Progress(1, -1, out); }, "at least one step; got -1");
  Progress progress(1, 1, out);
  expect_throws<ValueError>([&] { progress.step(-1); }, "must not be negative; got -1");
  progress.step(1);
  expect_throws<ValueError>([&] { progress.step(1); }, "at most 1 steps; got one more");
  progress.end_epoch();
  expect_throws<ValueError>([&] { progress.step(1); }, "no step may follow the last epoch");
  expect_throws<ValueError>([&] { progress.end_epoch(); }, "at most 1 epochs; got one more");
}

}  // namespace
}  // namespace ringrad::nn
