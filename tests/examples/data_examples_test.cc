// Examples of checkpoints and samplers: their output on threads, processes and GPUs, and after
// crashes.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "ringrad/tests/examples/commands.h"
#include "ringrad/tests/nn/checkpoint/folder.h"

namespace ringrad {
namespace {

using testing::Folder;
using testing::last_line;
using testing::Outcome;
using testing::run;

class RestartAfterCrashTest : public ::testing::Test {
 protected:
  // The output of rank 0; `name` is the checkpoint's.
  std::string train(const std::string& start, const std::string& name,
                    const std::string& arguments = "") {
    const Outcome outcome = run(start + "examples/restart_after_crash --checkpoint " +
                                (folder_ / name).string() + ' ' + arguments + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << start;
    return testing::without_ranks(outcome.output);
  }

  static std::string ringrun(int n, const std::string& options = "") {
    return "tools/src/ringrun --grace 1 -n " + std::to_string(n) + ' ' + options + ' ';
  }

  static std::string with_crash(const std::string& fault) {
    return "--max-restarts 1 --inject " + fault;
  }

  const Folder folder_;
};

const std::string kEpochs =
    "epoch 0: 240 of 240 samples seen once\n"
    "epoch 1: 240 of 240 samples seen once\n";

TEST_F(RestartAfterCrashTest, EndsWithTheSameBitsAsWithoutACrash) {
  const std::string undisturbed = train(ringrun(2), "undisturbed");
  EXPECT_TRUE(undisturbed.starts_with(kEpochs + "20 steps, parameters ")) << undisturbed;
  EXPECT_EQ(train("", "threads", "--world-size 2"), undisturbed);
  for (const std::string fault : {"kill:1@step=7", "kill:0@step=12", "abort:1@step=20"}) {
    const std::string crashed = train(ringrun(2, with_crash(fault)), fault);
    EXPECT_EQ(last_line(crashed), last_line(undisturbed)) << fault;
  }
  EXPECT_NE(train(ringrun(2, with_crash("kill:1@step=7")), "again")
                .find("resumed at step 5, epoch 0, sample 120 on 2 ranks\n" + kEpochs),
            std::string::npos);
  // Before the first checkpoint nothing is committed, so nothing is lost.
  const std::string early = train(ringrun(2, with_crash("kill:1@step=3")), "early");
  EXPECT_EQ(early, undisturbed);
}

TEST_F(RestartAfterCrashTest, GoesOnWithTheRanksThatAreLeft) {
  const std::string output =
      train(ringrun(4, with_crash("kill:1@step=7") + " --min-ranks 2"), "fewer");
  EXPECT_TRUE(output.starts_with("resumed at step 5, epoch 0, sample 120 on 3 ranks\n" + kEpochs +
                                 "20 steps"))
      << output;
  // Goes on even with a single rank: 2 of 3 are killed one after the other.
  const std::string twice = train(
      ringrun(3, "--max-restarts 2 --min-ranks 1 --inject kill:2@step=12,kill:1@step=6@restart=1"),
      "twice");
  EXPECT_EQ(twice.substr(0, twice.find("20 steps")),
            "epoch 0: 240 of 240 samples seen once\n"
            "resumed at step 10, epoch 0, sample 240 on 2 ranks\n"
            "epoch 0: 240 of 240 samples seen once\n"
            "resumed at step 15, epoch 1, sample 120 on 1 ranks\n"
            "epoch 1: 240 of 240 samples seen once\n")
      << twice;
}

// 24 or 96 samples are left for five ranks: in the last step one rank has none, or one more than
// the others.
TEST_F(RestartAfterCrashTest, SeesEachSampleOnceIfTheRestDoesNotDivide) {
  for (const std::string step : {"7", "10"}) {
    const std::string output =
        train(ringrun(6, with_crash("kill:1@step=" + step) + " --min-ranks 5"), "five" + step,
              "--every 1");
    EXPECT_NE(output.find(" on 5 ranks\n" + kEpochs), std::string::npos) << output;
  }
}

TEST_F(RestartAfterCrashTest, GoesOnOnThreadsAndGpusWhereItEnded) {
  for (const std::string device : {"cpu", "cuda"}) {
    const std::string arguments = "--world-size 2 --device " + device, parts = "parts_" + device;
    const std::string straight = train("", device, arguments);
    train("", parts, arguments + " --epochs 1");
    const std::string rest = train("", parts, arguments);
    EXPECT_TRUE(rest.starts_with("resumed at step 10, epoch 1, sample 0 on 2 ranks\n")) << rest;
    EXPECT_EQ(last_line(rest), last_line(straight));
  }
}

TEST_F(RestartAfterCrashTest, RefusesADamagedCheckpoint) {
  train("", "damaged", "--world-size 2 --epochs 1");
  std::filesystem::resize_file(folder_ / "damaged", 500);
  const Outcome outcome =
      run("examples/restart_after_crash --checkpoint " + (folder_ / "damaged").string() + " 2>&1");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("its checksum must match"), std::string::npos) << outcome.output;
}

struct Row {
  std::string name;
  double seen[3], right[3];
};

std::vector<Row> table(const std::string& output) {
  std::vector<Row> rows;
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line)) {
    Row row{line.substr(0, line.find("  ")), {}, {}};
    std::istringstream numbers(line.substr(std::min<std::size_t>(line.size(), 13)));
    for (double& number : row.seen) numbers >> number;
    for (double& number : row.right) numbers >> number;
    if (numbers) rows.push_back(row);
  }
  return rows;
}

// The table that the program prints: all samples alike, and weighted.
std::vector<Row> table_of(const std::string& command) {
  const Outcome outcome = run(command + " 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 0) << command;
  std::vector<Row> rows = table(testing::without_ranks(outcome.output));
  EXPECT_EQ(rows.size(), 2u) << outcome.output;
  rows.resize(2);
  return rows;
}

TEST(WeightedSamplingTest, RareClassesComeAsOftenAndAreRecognised) {
  for (const std::string start : {"", "tools/src/ringrun -n 2 "}) {
    SCOPED_TRACE(start);
    const std::vector<Row> rows = table_of(start + "examples/weighted_sampling --world-size 2");
    EXPECT_EQ(rows[0].name, "all alike");
    EXPECT_EQ(rows[1].name, "weighted");
    EXPECT_NEAR(rows[0].seen[0], 0.9, 0.02);
    EXPECT_GT(rows[0].right[0], 0.9);
    EXPECT_LT(rows[0].right[2], 0.6);
    for (const double seen : rows[1].seen) EXPECT_NEAR(seen, 1. / 3, 0.02);
    EXPECT_GT(rows[1].right[1], rows[0].right[1]);
    EXPECT_GT(rows[1].right[2], 0.75);
  }
}

// One epoch instead of eight: a simulated GPU is slow.
TEST(WeightedSamplingTest, GpusDoWhatTheCpuDoes) {
  const std::string command = "examples/weighted_sampling --world-size 2 --epochs 1 --device ";
  const std::vector<Row> cpu = table_of(command + "cpu"), gpu = table_of(command + "cuda");
  for (std::size_t kind = 0; kind < 2; ++kind)
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(gpu[kind].seen[c], cpu[kind].seen[c]);
      EXPECT_NEAR(gpu[kind].right[c], cpu[kind].right[c], 0.015);
    }
}

}  // namespace
}  // namespace ringrad
