// LossCurve: where its lines run, and what it refuses.

#include "ringrad/nn/loss_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>

#include "ringrad/tests/core/file/file_rules.h"
#include "ringrad/tests/foreign_numbers.h"
#include "ringrad/tests/nn/checkpoint/folder.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

using testing::expect_throws;
using testing::Folder;

// The data of the path of line `k`.
std::string path(const std::string& svg, int k) {
  std::smatch match;
  const std::regex pattern("<path class=\"line line" + std::to_string(k) + "\" d=\"([^\"]*)\"");
  return std::regex_search(svg, match, pattern) ? match[1] : std::string("none");
}

TEST(LossCurveTest, LinesRunThroughTheirPoints) {
  LossCurve curve;
  curve.add("training", 0, 2);
  curve.add("training", 5, 1);
  curve.add("training", 10, 0);
  curve.add("test", 10, 0.5);
  const std::string svg = curve.svg();
  // The chart is 640 x 320 pixels, and begins at (64, 72).
  EXPECT_EQ(path(svg, 0), "M64 72h0L384 232L704 392");
  EXPECT_EQ(path(svg, 1), "M704 312h0");
  EXPECT_NE(svg.find(">training</text>"), std::string::npos);
  EXPECT_NE(svg.find(">test</text>"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(LossCurveTest, NegativeLossesAreBelowZero) {
  LossCurve curve;
  curve.add("training", 0, -1);
  curve.add("training", 1, 1);
  EXPECT_EQ(path(curve.svg(), 0), "M64 392h0L704 72");
}

TEST(LossCurveTest, LossesThatAreNotFiniteLeaveAGap) {
  LossCurve curve;
  int step = 0;
  for (const double loss : {2.0, 1.0, double{NAN}, double{INFINITY}, 1e300, 1.0})
    curve.add("training", step++, loss);
  EXPECT_EQ(path(curve.svg(), 0), "M64 72h0L192 232M704 232h0");
}

TEST(LossCurveTest, ALongLineIsDrawnAsMeans) {
  LossCurve curve;
  for (int step = 0; step < 80'000; ++step) curve.add("training", step, step % 2 == 0 ? 1 : 3);
  const std::string line = path(curve.svg(), 0);
  EXPECT_LE(std::count(line.begin(), line.end(), 'L'), 800);
  EXPECT_NE(line.find(" 178.667L"), std::string::npos) << "the mean, 2 of 3";
}

TEST(LossCurveTest, MeansAreOfFiniteLosses) {
  LossCurve curve;
  for (int step = 0; step < 1600; ++step) curve.add("training", step, step % 2 == 0 ? 1 : NAN);
  const std::string line = path(curve.svg(), 0);
  EXPECT_EQ(std::count(line.begin(), line.end(), 'L'), 799) << line;
}

TEST(LossCurveTest, TheTitleBecomesUtf8) {
  LossCurve curve("caf\xe9 \xc3\xa9 \xed\xa0\x80\xf0\x9f\x98\x80\xe2\x82");
  curve.add("training", 0, 1);
  EXPECT_NE(curve.svg().find(">caf\uFFFD \u00e9 \uFFFD\uFFFD\uFFFD\U0001F600\uFFFD\uFFFD<"),
            std::string::npos)
      << curve.svg();
}

TEST(LossCurveTest, ALineOfZerosHasAnAxis) {
  LossCurve curve("<zeros & more>");
  curve.add("training", 0, 0);
  const std::string svg = curve.svg();
  EXPECT_EQ(path(svg, 0), "M64 392h0");
  EXPECT_NE(svg.find("&lt;zeros &amp; more&gt;"), std::string::npos);
}

TEST(LossCurveTest, WritesTheWholeFile) {
  const Folder folder;
  LossCurve curve;
  curve.add("training", 1, 2);
  curve.write(folder / "loss.svg");
  std::ostringstream text;
  text << std::ifstream(folder / "loss.svg").rdbuf();
  EXPECT_EQ(text.str(), curve.svg());
  EXPECT_EQ(folder.files(), std::vector<std::string>{"loss.svg"});
  expect_throws<DataError>([&] { curve.write(folder / "absent" / "loss.svg"); }, "absent");
  ringrad::testing::expect_file_rules([&](const auto& path) { curve.write(path); });
}

TEST(LossCurveTest, RefusesWhatItCannotDraw) {
  LossCurve curve;
  expect_throws<ValueError>([&] { curve.svg(); },
                            "there must be a finite loss; got none in 0 lines");
  expect_throws<ValueError>([&] { curve.add("training", -1, 1); }, "must exceed -1; got -1");
  curve.add("training", 3, NAN);
  expect_throws<ValueError>([&] { curve.svg(); },
                            "there must be a finite loss; got none in 1 lines");
  expect_throws<ValueError>([&] { curve.add("training", 3, 1); }, "must exceed 3; got 3");
  for (int k = 1; k < 6; ++k) curve.add(std::to_string(k), 0, 1);
  expect_throws<ValueError>([&] { curve.add("seventh", 0, 1); }, "at most 6 lines; got seventh");
}

TEST(LossCurveTest, ThePictureIsTheSameInEveryLocale) {
  LossCurve curve;
  for (int step = 0; step < 10; ++step) curve.add("training", 1000 * step, 1. / (1 + step));
  const std::string expected = curve.svg();
  const testing::ForeignNumbers guard;
  EXPECT_EQ(curve.svg(), expected);
}

}  // namespace
}  // namespace ringrad::nn
