#include "ringrad/nn/optimizer/schedule.h"

#include <gtest/gtest.h>

#include "ringrad/tests/golden/golden.h"
#include "ringrad/tests/testing.h"

namespace ringrad::nn {
namespace {

void expect_rates(const Schedule& schedule, const std::string& name) {
  const auto rates =
      ringrad::testing::read_golden("schedules").at(name).at("rates").to_vector<float>();
  ASSERT_EQ(rates.size(), 20u);
  for (std::size_t step = 0; step < rates.size(); ++step)
    EXPECT_NEAR(schedule(static_cast<std::int64_t>(step)), rates[step], 1e-6)
        << name << ' ' << step;
}

TEST(ScheduleTest, RatesMatchPyTorch) {
  expect_rates(step_decay(0.5, 6, 0.1), "step_decay");
  expect_rates(cosine(0.5, 20, 0.01), "cosine");
  expect_rates(one_cycle(0.5, 21), "one_cycle");
}

TEST(ScheduleTest, RatesStayAtTheirEndBeyondTheLastStep) {
  EXPECT_DOUBLE_EQ(cosine(0.5, 20, 0.01)(1000), 0.01);
  EXPECT_DOUBLE_EQ(one_cycle(0.5, 21)(1000), 0.5 / 25 / 1e4);
}

TEST(ScheduleTest, WarmUpRisesLinearlyAndHandsOver) {
  const Schedule schedule = warm_up(4, constant(10));
  EXPECT_DOUBLE_EQ(schedule(0), 2);
  EXPECT_DOUBLE_EQ(schedule(3), 8);
  EXPECT_DOUBLE_EQ(schedule(4), 10);
  EXPECT_DOUBLE_EQ(warm_up(4, step_decay(1, 2, 0.5))(7), 0.5);
}

TEST(ScheduleTest, ThrowsOnImpossibleLengths) {
  EXPECT_THROW(step_decay(1, 0, 0.5), ValueError);
  EXPECT_THROW(cosine(1, 0), ValueError);
  EXPECT_THROW(one_cycle(1, 1), ValueError);
  EXPECT_THROW(one_cycle(1, 10, {.rising_part = 1}), ValueError);
  EXPECT_THROW(warm_up(-1, constant(1)), ValueError);
}

}  // namespace
}  // namespace ringrad::nn
