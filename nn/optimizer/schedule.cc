#include "ringrad/nn/optimizer/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringrad::nn {
namespace {

// From `start` at 0 to `end` at 1 along half a cosine.
double half_cosine(double start, double end, double at) {
  return end + (start - end) * (1 + std::cos(std::numbers::pi * at)) / 2;
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
  return [num_steps, after = std::move(after)](std::int64_t step) {
    if (step >= num_steps) return after(step - num_steps);
    return after(0) * static_cast<double>(step + 1) / static_cast<double>(num_steps + 1);
  };
}

}  // namespace ringrad::nn
