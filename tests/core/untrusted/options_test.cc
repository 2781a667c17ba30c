#include "ringrad/core/untrusted/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ringrad {
namespace {

struct Answer {
  std::optional<int> exit_code;
  std::string error;
};

class OptionsTest : public testing::Test {
 protected:
  OptionsTest() : app_("About.", "folder/program") {
    app_.add_option("--epochs", epochs_)->check(option::epochs());
    app_.add_option("--seed", seed_)->check(option::seed());
    app_.add_option("--rate", rate_)->check(option::number(0, 10));
    app_.add_option("--json", json_)->check(option::writable_file());
  }

  Answer parse(std::vector<const char*> arguments, const std::function<void()>& check = {}) {
    arguments.insert(arguments.begin(), "program");
    testing::internal::CaptureStderr();
    const auto exit_code =
        parse_options(app_, static_cast<int>(arguments.size()), arguments.data(), check);
    return {exit_code, testing::internal::GetCapturedStderr()};
  }

  void expect_refused(const std::vector<const char*>& arguments, const std::string& why) {
    const auto [exit_code, error] = parse(arguments);
    EXPECT_EQ(exit_code, 2) << arguments.back();
    EXPECT_EQ(error, "program: " + why + " (see --help)\n");
  }

  CLI::App app_;
  int epochs_ = 7;
  std::uint64_t seed_ = 0;
  double rate_ = 0;
  std::string json_;
};

TEST_F(OptionsTest, TakesWhatIsInRange) {
  const auto [exit_code, error] =
      parse({"--epochs", "1000000", "--seed", "9223372036854775807", "--rate", "1e-3"});
  EXPECT_EQ(exit_code, std::nullopt);
  EXPECT_EQ(error, "");
  EXPECT_EQ(epochs_, 1'000'000);
  EXPECT_EQ(seed_, 9223372036854775807u);
  EXPECT_EQ(rate_, 1e-3);
}

TEST_F(OptionsTest, RefusesAbsurdValuesInOneLine) {
  const std::string epochs = "--epochs: must be a whole number in [1, 1000000]; got ";
  for (const std::string value : {"-3", "0", "1000001", "99999999999999999999", "1.5", "x", ""})
    expect_refused({"--epochs", value.c_str()}, epochs + '"' + value + '"');
  expect_refused({"--seed", "-1"},
                 "--seed: must be a whole number in [0, 9223372036854775807]; got \"-1\"");
  for (const std::string value : {"nan", "-nan", "inf", "-inf", "1e999", "-1e-300", "10.0001"})
    expect_refused({"--rate", value.c_str()},
                   "--rate: must be a number in [0, 10]; got \"" + value + '"');
  expect_refused({"--json", "/nonexistent/x"},
                 "--json: the file must be writable; got \"/nonexistent/x\"");
}

TEST_F(OptionsTest, NamesTheNearestOption) {
  for (const char* typed : {"--epoch", "--epcohs", "--epochs_", "--Epochs", "--epo"}) {
    const std::string expected = std::string("unknown option ") + typed + ", nearest is --epochs";
    expect_refused({typed, "3"}, expected);
    expect_refused({"--seed", "1", (std::string(typed) + "=3").c_str()}, expected);
  }
  expect_refused({"--sed=1"}, "unknown option --sed, nearest is --seed");
  expect_refused({"--something-else"}, "unknown option --something-else");
  expect_refused({"-x"}, "unknown option -x");
  app_.get_option("--rate")->required();  // a misspelled option is not merely missing
  expect_refused({"--rte", "1"}, "unknown option --rte, nearest is --rate");
  const auto [exit_code, error] = parse({"--rate", "1", "-3"});
  EXPECT_EQ(exit_code, 2);
  EXPECT_EQ(error.find("unknown option"), error.npos) << error;
}

TEST_F(OptionsTest, ErrorsEscapeWhatTheyShow) {
  const auto [exit_code, error] = parse({"--epochs", "\x1b[2J\n"});
  EXPECT_EQ(exit_code, 2);
  EXPECT_EQ(error.find_first_of("\x1b"), std::string::npos);
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1);
}

TEST_F(OptionsTest, ChecksArgumentsTogether) {
  const auto [exit_code, error] =
      parse({}, [] { throw CLI::ValidationError("--epochs: must go with --rate"); });
  EXPECT_EQ(exit_code, 2);
  EXPECT_EQ(error, "program: --epochs: must go with --rate (see --help)\n");
}

TEST_F(OptionsTest, HelpIsNoError) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("--epochs"), std::string::npos);
}

}  // namespace
}  // namespace ringrad
