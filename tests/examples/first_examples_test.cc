// The examples that need no ranks: what they print and write, and what they refuse.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "ringrad/tests/examples/commands.h"
#include "ringrad/tests/nn/checkpoint/folder.h"

namespace ringrad {
namespace {

using testing::Folder;
using testing::last_line;
using testing::Outcome;
using testing::run;

// The number after `text` in the output.
double number_after(const std::string& output, const std::string& text) {
  const std::size_t at = output.find(text);
  EXPECT_NE(at, std::string::npos) << text << " in " << output;
  return at == std::string::npos ? -1 : std::stod(output.substr(at + text.size()));
}

TEST(OneDeviceExampleTest, LearnsAndDrawsItsLosses) {
  const Folder folder;
  const std::string curve = folder / "curve.svg";
  const Outcome outcome = run("examples/one_device --curve " + curve + " 2>&1");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("epoch 20/20 [====================] 16/16  loss "),
            std::string::npos)
      << outcome.output;
  const std::string last = last_line(outcome.output);
  EXPECT_GT(number_after(last, "test accuracy "), 0.95);
  EXPECT_NE(last.find(curve), std::string::npos) << last;
  std::ostringstream svg;
  svg << std::ifstream(curve).rdbuf();
  for (const char* text : {">Three spirals</text>", ">training</text>", ">test</text>"})
    EXPECT_NE(svg.str().find(text), std::string::npos) << text;
}

TEST(OneDeviceExampleTest, AGpuLearnsAsTheCpuDoes) {
  const Folder folder;
  const std::string command = "examples/one_device --epochs 1 --curve " + (folder / "x").string();
  const Outcome outcome = run(command + " --device cuda 2>/dev/null");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NEAR(number_after(outcome.output, "test accuracy "),
              number_after(run(command + " 2>/dev/null").output, "test accuracy "), 0.02);
}

TEST(OneDeviceExampleTest, RefusesAPictureThatCannotBeWritten) {
  const Outcome outcome = run("examples/one_device --epochs 1 --curve /nonexistent/x.svg 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(last_line(outcome.output).find("/nonexistent"), std::string::npos) << outcome.output;
}

TEST(FineTuneExampleTest, ALoadedBodyBeatsOneTrainedOnFewSamples) {
  const Folder folder;
  const Outcome outcome = run("examples/fine_tune " + (folder / "body").string());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_GT(number_after(outcome.output, "1500 samples: "), 0.95);
  EXPECT_GT(number_after(outcome.output, "body as loaded: "),
            number_after(outcome.output, "from scratch: ") + 0.03);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"body"});
}

TEST(FineTuneExampleTest, RefusesAFileThatCannotBeWritten) {
  const Outcome outcome = run("examples/fine_tune /nonexistent/body 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(last_line(outcome.output).find("/nonexistent"), std::string::npos) << outcome.output;
}

TEST(OwnModelExampleTest, ANetLoadedFromItsFileHasLearned) {
  const Folder folder;
  const std::string program = std::filesystem::current_path() / "examples/own_model";
  const Outcome outcome = run("cd " + folder.path().string() + " && " + program);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_GT(number_after(outcome.output, "accuracy "), 0.95);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"net.safetensors"});
}

TEST(OwnDataSetExampleTest, ShowsItsPicturesAndLearnsThem) {
  const Outcome outcome = run("examples/own_data_set");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find('#'), std::string::npos);
  EXPECT_GT(number_after(last_line(outcome.output), "test accuracy "), 0.95);
  EXPECT_EQ(run("OMP_NUM_THREADS=1 examples/own_data_set").output.substr(0, 8 * 45),
            outcome.output.substr(0, 8 * 45));
}

TEST(ImageFolderExampleTest, LearnsFromTheFilesThatItHasDrawn) {
  const Folder folder;
  const std::string program = std::filesystem::current_path() / "examples/image_folder";
  const Outcome drawn = run("cd " + folder.path().string() + " && " + program);
  EXPECT_EQ(drawn.exit_code, 0);
  EXPECT_GT(number_after(drawn.output, "test accuracy "), 0.9);
  EXPECT_EQ(run(program + ' ' + (folder / "shapes").string()).exit_code, 0);
  const Outcome missing = run(program + " /nonexistent 2>&1");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.output.find("/nonexistent/train must be a folder"), std::string::npos)
      << missing.output;
}

TEST(OwnOperatorExampleTest, ItsGradientIsCheckedAndAMistakeIsFound) {
  const Outcome outcome = run("examples/own_operator");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output,
            "composed   tensor([   inf, 0.4338, 0.0000, 1.3250])\n"
            "log_cosh   tensor([999.3068,   0.4338,   0.0000,   1.3250])\n"
            "gradient   tensor([-1.0000, -0.7616,  0.0000,  0.9640])\n"
            "gradient: correct\n"
            "gradient of the gradient: correct\n" +
                last_line(outcome.output) + '\n');
  EXPECT_TRUE(last_line(outcome.output)
                  .starts_with("with a mistake: the gradient of input 0 at element 0 must be "))
      << outcome.output;
}

}  // namespace
}  // namespace ringrad
