#include "ringrad/nn/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {
namespace {

// From `start` at 0 to `end` at 1 along half a cosine.
double half_cosine(double start, double end, double at) {
  return end + (start - end) * (1 + std::cos(std::numbers::pi * at)) / 2;
}

// The number of milestones that have been reached.
std::ptrdiff_t num_reached(const std::vector<std::int64_t>& milestones, std::int64_t step) {
  return std::ranges::upper_bound(milestones, step) - milestones.begin();
}

void check_milestones(const char* name, const std::vector<std::int64_t>& milestones, Where where) {
  RINGRAD_CHECK(std::ranges::is_sorted(milestones), ValueError, where, name,
                ": milestones must ascend; got ", milestones.size(), " that do not");
}

void check_schedule(const char* name, const Schedule& schedule, Where where) {
  RINGRAD_CHECK(schedule, ValueError, where, name,
                ": a schedule must be a function; got an empty one");
}

}  // namespace

Schedule constant(double rate) {
  return [=](std::int64_t) { return rate; };
}

Schedule step_decay(double rate, std::int64_t every, double factor, Where where) {
  RINGRAD_CHECK(every > 0, ValueError, where, "step_decay: every must be positive; got ", every);
  return
      [=](std::int64_t step) { return rate * std::pow(factor, static_cast<double>(step / every)); };
}

Schedule multi_step(double rate, std::vector<std::int64_t> milestones, double factor, Where where) {
  check_milestones("multi_step", milestones, where);
  return [rate, factor, milestones = std::move(milestones)](std::int64_t step) {
    return rate * std::pow(factor, static_cast<double>(num_reached(milestones, step)));
  };
}

Schedule exponential(double rate, double factor) {
  return [=](std::int64_t step) { return rate * std::pow(factor, static_cast<double>(step)); };
}

Schedule polynomial(double rate, std::int64_t num_steps, double power, Where where) {
  RINGRAD_CHECK(num_steps > 0, ValueError, where, "polynomial: num_steps must be positive; got ",
                num_steps);
  check_not_negative("polynomial", {{"power", power}}, where);
  return [=](std::int64_t step) {
    const double at =
        static_cast<double>(std::min(step, num_steps)) / static_cast<double>(num_steps);
    return rate * std::pow(1 - at, power);
  };
}

Schedule cosine(double rate, std::int64_t num_steps, double minimum, Where where) {
  RINGRAD_CHECK(num_steps > 0, ValueError, where, "cosine: num_steps must be positive; got ",
                num_steps);
  return [=](std::int64_t step) {
    const double at =
        static_cast<double>(std::min(step, num_steps)) / static_cast<double>(num_steps);
    return half_cosine(rate, minimum, at);
  };
}

Schedule one_cycle(double rate, std::int64_t num_steps, const OneCycleOptions& options,
                   Where where) {
  RINGRAD_CHECK(num_steps > 1 && options.rising_part > 0 && options.rising_part < 1, ValueError,
                where, "one_cycle: num_steps must exceed 1 and rising_part lie in (0, 1); got ",
                num_steps, " and ", options.rising_part);
  check_positive(
      "one_cycle",
      {{"start_divisor", options.start_divisor}, {"final_divisor", options.final_divisor}}, where);
  const double start = rate / options.start_divisor;
  const double end = start / options.final_divisor;
  const double peak = options.rising_part * static_cast<double>(num_steps) - 1;
  const double last = static_cast<double>(num_steps - 1);
  return [=](std::int64_t step) {
    const double at = std::min(static_cast<double>(step), last);
    if (at <= peak) return half_cosine(start, rate, at / std::max(peak, 1e-9));
    return half_cosine(rate, end, (at - peak) / (last - peak));
  };
}

Schedule warm_up(std::int64_t num_steps, Schedule after, Where where) {
  RINGRAD_CHECK(num_steps >= 0, ValueError, where, "warm_up: num_steps must not be negative; got ",
                num_steps);
  check_schedule("warm_up", after, where);
  return [num_steps, after = std::move(after)](std::int64_t step) {
    if (step >= num_steps) return after(step - num_steps);
    return after(0) * static_cast<double>(step + 1) / static_cast<double>(num_steps + 1);
  };
}

Schedule sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones,
                    Where where) {
  check_milestones("sequential", milestones, where);
  RINGRAD_CHECK(schedules.size() == milestones.size() + 1, ValueError, where,
                "sequential: there must be one schedule more than milestones; got ",
                schedules.size(), " and ", milestones.size());
  for (const Schedule& schedule : schedules) check_schedule("sequential", schedule, where);
  return [schedules = std::move(schedules), milestones = std::move(milestones)](std::int64_t step) {
    const auto i = static_cast<std::size_t>(num_reached(milestones, step));
    return schedules[i](i == 0 ? step : step - milestones[i - 1]);
  };
}

}  // namespace ringrad::nn
