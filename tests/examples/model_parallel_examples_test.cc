// The examples of models on several devices print the same as one device would.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "ringrad/tests/examples/commands.h"

namespace ringrad {
namespace {

using testing::Outcome;
using testing::run;

TEST(TwoDevicesExampleTest, LearnsWhatOneDeviceLearns) {
  for (const std::string devices :
       {"", "--device0 cuda:0 --device1 cuda:1", "--device0 cpu:3 --device1 cpu:3"}) {
    const Outcome outcome = run("examples/two_devices " + devices + " 2>/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << devices;
    const std::string& output = outcome.output;
    EXPECT_NE(testing::last_line(output).find(": as on one device, bit by bit"), std::string::npos)
        << output;
    const auto number_after = [&](const std::string& text) {
      const std::size_t at = output.find(text);
      EXPECT_NE(at, std::string::npos) << text << " in " << output;
      return at == std::string::npos ? NAN : std::stod(output.substr(at + text.size()));
    };
    EXPECT_LT(number_after("step 10: loss "), 0.95 * number_after("step 1: loss ")) << output;
  }
}

TEST(TwoDevicesExampleTest, ShowsHelpAndRefusesWrongDevices) {
  EXPECT_NE(run("examples/two_devices --help").output.find("--device1"), std::string::npos);
  const Outcome outcome = run("examples/two_devices --device1 gpu 2>&1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("got"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace ringrad
