// The examples as a user runs them: their output, and their response to wrong arguments.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::last_line;
using testing::Outcome;
using testing::run;

const std::string kTraining = "examples/fashion_mnist ";

// The README's blocks of C++ as printed.
std::vector<std::string> readme_programs() {
  std::ifstream file("README.md");
  std::vector<std::string> programs;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line == "```cpp") programs.emplace_back();
    if (is_inside && line != "```") programs.back() += line + '\n';
    is_inside = line == "```cpp" || (is_inside && line != "```");
  }
  return programs;
}

// A program, cut into its code, without empty lines, and the text of its comments.
struct Parts {
  std::string code, comments;
};

Parts parts_of(const std::string& program) {
  std::istringstream lines(program);
  Parts parts;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comment = line.find("// ");
    if (comment != std::string::npos) parts.comments += line.substr(comment + 3) + '\n';
    line = line.substr(0, comment);
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) parts.code += line + '\n';
  }
  return parts;
}

TEST(FirstStepsTest, PrintsWhatTheReadmeSays) {
  const Outcome outcome = run("examples/first_steps");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, parts_of(readme_programs().at(0)).comments);
}

TEST(FourReplicasTest, StayIdentical) {
  const Outcome outcome = run("examples/four_replicas");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("160 passes reduced"), std::string::npos) << outcome.output;
  EXPECT_EQ(last_line(outcome.output), "identical: 1");
}

TEST(ReadmeTest, ShowsItsProgramsWordForWord) {
  const std::vector<std::string> shown = readme_programs();
  const char* const files[] = {"examples/first_steps.cc", "examples/four_replicas.cc",
                               "examples/own_model.cc"};
  ASSERT_EQ(shown.size(), std::size(files));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    std::ostringstream text;
    text << std::ifstream(files[i]).rdbuf();
    EXPECT_EQ(parts_of(shown[i]).code, parts_of(text.str()).code) << files[i];
  }
}

TEST(FashionMnistTest, TrainsAndEndsWithASummaryInJson) {
  const Outcome outcome = run(kTraining + "--epochs 1 --model mlp --world-size 2 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 0);
  const auto summary = nlohmann::json::parse(last_line(outcome.output));
  EXPECT_GT(summary["test_accuracy"], 0.8);
  EXPECT_EQ(summary["world_size"], 2);
  EXPECT_EQ(summary["epochs"], 1);
  EXPECT_EQ(summary["replicas_identical"], true);
  EXPECT_GT(summary["images_per_second"], 0);
}

// The same program and plans give the same accuracy, to the last digit.
TEST(FashionMnistTest, TrainsOnProcessesAsOnThreads) {
  const std::string arguments =
      "--epochs 1 --batch-size 32 --train-images 640 --test-images 256 --model convnet ";
  const Outcome threads = run(kTraining + arguments + "--world-size 2 2>/dev/null");
  const Outcome processes = run("tools/src/ringrun -n 2 " + kTraining + arguments + "2>/dev/null");
  ASSERT_EQ(threads.exit_code, 0);
  ASSERT_EQ(processes.exit_code, 0);
  const auto one = nlohmann::json::parse(last_line(threads.output));
  const auto two = nlohmann::json::parse(last_line(processes.output).substr(4));  // "[0] "
  EXPECT_EQ(one["ranks"], "threads");
  EXPECT_EQ(two["ranks"], "processes");
  EXPECT_EQ(two["world_size"], 2);
  EXPECT_EQ(two["replicas_identical"], true);
  EXPECT_EQ(one["test_accuracy"], two["test_accuracy"]);
}

TEST(FashionMnistTest, TrainsOverEveryBackend) {
  const std::string arguments =
      "--epochs 1 --batch-size 32 --train-images 320 --test-images 256 --model convnet ";
  const auto summary = [&](const std::string& start, const std::string& backend) {
    const Outcome outcome =
        run(start + kTraining + arguments + "--backend " + backend + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << backend;
    const std::string line = last_line(outcome.output);
    return nlohmann::json::parse(line.substr(line.find('{')));
  };
  const std::string ringrun = "tools/src/ringrun -n 2 ";
  const auto expected = summary(ringrun, "processes");
  for (const auto& result : {summary(ringrun, "gloo"), summary(testing::mpirun(2), "mpi")}) {
    EXPECT_EQ(result["replicas_identical"], true);
    EXPECT_EQ(result["test_accuracy"], expected["test_accuracy"]);  // two terms have one order
  }
  EXPECT_NE(run(kTraining + "--backend gloo 2>/dev/null").exit_code, 0);  // no launcher
}

TEST(FashionMnistTest, TrainsOnGpusAsOnTheCpu) {
  const std::string arguments =
      "--epochs 1 --world-size 2 --batch-size 32 --train-images 320 "
      "--test-images 128 --model convnet";
  const auto train = [&](const std::string& device) {
    const Outcome outcome = run(kTraining + arguments + " --device " + device + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0);
    return nlohmann::json::parse(last_line(outcome.output));
  };
  const auto on_cpu = train("cpu"), on_gpu = train("cuda");
  EXPECT_EQ(on_cpu["device"], "cpu");
  EXPECT_NE(std::string(on_gpu["device"]).find("GPU"), std::string::npos);
  EXPECT_EQ(on_gpu["replicas_identical"], true);
  EXPECT_NEAR(on_gpu["test_accuracy"], on_cpu["test_accuracy"], 0.05);
}

TEST(FashionMnistTest, ProgressGoesToStandardErrorAsPlainLines) {
  const Outcome outcome = run(kTraining + "--epochs 1 --model mlp 2>&1 >/dev/null");
  EXPECT_NE(outcome.output.find("epoch 1/1"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("test accuracy"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find('\r'), std::string::npos) << "no terminal, no rewriting";
}

TEST(FashionMnistTest, HelpListsTheOptions) {
  const Outcome outcome = run(kTraining + "--help");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* option : {"--epochs", "--world-size", "--model", "--batch-size", "--seed"})
    EXPECT_NE(outcome.output.find(option), std::string::npos) << option;
}

TEST(FashionMnistTest, WrongArgumentsAreNamed) {
  const auto expect_complaint = [](const std::string& arguments, const std::string& text) {
    const Outcome outcome = run(kTraining + arguments + " 2>&1");
    EXPECT_GT(outcome.exit_code, 0) << arguments;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << arguments << ": " << outcome.output;
  };
  expect_complaint("--world-size 0", "--world-size");
  expect_complaint("--epochs -1", "--epochs");
  expect_complaint("--model vgg", "vgg");
  expect_complaint("--colour red", "--colour");
  expect_complaint("--batch-size 100 --world-size 3", "multiple of --world-size; got 100 and 3");
  expect_complaint("--batch-size 120000", "got 120000");
  expect_complaint("--data /nowhere", "/nowhere");
  expect_complaint("--data /tmp", "/tmp");
  expect_complaint("--all-reduce star", "halving_doubling");
  const Outcome outcome =
      run("RANK=0 WORLD_SIZE=2 " + kTraining + "--world-size 3 --batch-size 3 2>&1");
  EXPECT_GT(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("must be what the launcher started; got 3 and 2"),
            std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace ringrad
