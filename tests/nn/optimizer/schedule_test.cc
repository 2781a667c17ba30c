#include "ringrad/nn/optimizer/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ringrad/nn/optimizer/plateau.h"
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
  expect_rates(multi_step(0.5, {3, 7, 7, 15}, 0.5), "multi_step");
  expect_rates(exponential(0.5, 0.8), "exponential");
  expect_rates(polynomial(0.5, 15, 2), "polynomial");
  expect_rates(sequential({constant(0.5), exponential(0.5, 0.5), step_decay(0.5, 2, 0.1)}, {4, 9}),
               "sequential");
}

void expect_plateau(const PlateauOptions& options, const std::string& name) {
  const auto golden = ringrad::testing::read_golden("schedules").at(name);
  const auto metrics = golden.at("metrics").to_vector<double>();
  const auto rates = golden.at("rates").to_vector<double>();
  Plateau plateau(0.5, options), resumed(7, options);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_NEAR(plateau(metrics[i]), rates[i], 1e-6) << name << ' ' << i;
    if (i > 0) {  // a run that resumed after the previous report
      EXPECT_EQ(resumed(metrics[i]), plateau.rate());
    }
    resumed.load_state_dict(plateau.state_dict());
  }
}

TEST(ScheduleTest, PlateauMatchesPyTorchAndResumes) {
  expect_plateau({.factor = 0.5, .patience = 1, .cooldown = 2, .minimum = 0.1}, "plateau");
  expect_plateau({.factor = 0.1, .patience = 0, .threshold = 0.05, .maximize = true},
                 "plateau maximize");
}

// Each rate after a report of the metrics, with no patience and factor 1/2.
std::vector<double> rates_of(const PlateauOptions& options, const std::vector<double>& metrics) {
  PlateauOptions without_patience = options;
  without_patience.factor = 0.5;
  without_patience.patience = 0;
  Plateau plateau(1, without_patience);
  std::vector<double> rates;
  for (const double metric : metrics) rates.push_back(plateau(metric));
  return rates;
}

TEST(ScheduleTest, PlateauKnowsBetterFromWorseBelowZero) {
  using Rates = std::vector<double>;
  // -99.95 is worse than -100; -100.05 is better, by less than a thousandth; -102 by more.
  const std::vector<double> losses{-100, -99.95, -100.05, -102};
  EXPECT_EQ(rates_of({.threshold = 1e-3}, losses), (Rates{1, 0.5, 0.25, 0.25}));
  EXPECT_EQ(rates_of({.threshold = 0}, losses), (Rates{1, 0.5, 0.5, 0.5}));
  EXPECT_EQ(rates_of({.threshold = 1e-3, .maximize = true}, {-102, -102.05, -101.95, -100}),
            (Rates{1, 0.5, 0.25, 0.25}));
  // Through zero, where no change is relative.
  EXPECT_EQ(rates_of({.threshold = 0.1}, {1, 0, -1e-9, -0.5}), (Rates{1, 1, 1, 1}));
  EXPECT_EQ(rates_of({.threshold = 2}, {10, 5, -11}), (Rates{1, 0.5, 0.5}));
}

TEST(ScheduleTest, PlateauTakesAbsoluteThresholds) {
  using Rates = std::vector<double>;
  const PlateauOptions falling{.threshold = 0.25, .is_absolute = true};
  for (const double origin : {-100., 0., 100.})
    EXPECT_EQ(rates_of(falling, {origin, origin - 0.25, origin - 0.5, origin}),
              (Rates{1, 0.5, 0.5, 0.25}));
  PlateauOptions rising = falling;
  rising.maximize = true;
  EXPECT_EQ(rates_of(rising, {-1, -0.75, -0.5, -1}), (Rates{1, 0.5, 0.5, 0.25}));
}

TEST(ScheduleTest, PlateauTakesNanForNoProgress) {
  Plateau plateau(1, {.factor = 0.5, .patience = 1});
  EXPECT_EQ(plateau(3), 1);
  EXPECT_EQ(plateau(std::nan("")), 1);
  EXPECT_EQ(plateau(std::nan("")), 0.5);
  StateDict state = plateau.state_dict();
  state.at("bad_reports") =
      scalar_tensor(std::int64_t{-1}, {.dtype = DType::int64, .device = Device()});
  ringrad::testing::expect_throws<ValueError>([&] { plateau.load_state_dict(state); }, "-1");
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
  EXPECT_THROW(multi_step(1, {5, 3}, 0.5), ValueError);
  EXPECT_THROW(polynomial(1, 0), ValueError);
  EXPECT_THROW(polynomial(1, 10, -1), ValueError);
  EXPECT_THROW(one_cycle(1, 10, {.start_divisor = 0}), ValueError);
  EXPECT_THROW(one_cycle(1, 10, {.final_divisor = 0}), ValueError);
  EXPECT_THROW(warm_up(3, {}), ValueError);
  EXPECT_THROW(sequential({constant(1), {}}, {3}), ValueError);
  EXPECT_THROW(sequential({constant(1)}, {3}), ValueError);
  EXPECT_THROW(Plateau(1, {.factor = 1}), ValueError);
  EXPECT_THROW(Plateau(1, {.patience = -1}), ValueError);
  for (const double bad : {std::numeric_limits<double>::infinity(), -1., std::nan("")}) {
    EXPECT_THROW(Plateau(bad, {}), ValueError);
    EXPECT_THROW(Plateau(1, {.factor = bad}), ValueError);
    EXPECT_THROW(Plateau(1, {.threshold = bad}), ValueError);
    EXPECT_THROW(Plateau(1, {.minimum = bad}), ValueError);
  }
}

}  // namespace
}  // namespace ringrad::nn
