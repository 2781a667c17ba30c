// Learning-rate schedules: pure functions of the step number, so that training can resume anywhere.
//
//     const nn::Schedule schedule = nn::warm_up(100, nn::cosine(0.1, 2000));
//     optimizer.set_learning_rate(schedule(step));
//
//     constant ----      step -__      cosine -.        one_cycle  .-.        warm_up  /----
//                               -__            `-._               /    `-._            /
//
// Rates that depend on how training goes: nn/optimizer/plateau.h.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ringrad/core/base/error.h"

namespace ringrad::nn {

/// The learning rate of a step; steps count from 0.
using Schedule = std::function<double(std::int64_t step)>;

/// The same rate in every step.
Schedule constant(double rate);

/// rate * factor^floor(step / every). Throws ValueError unless every > 0.
Schedule step_decay(double rate, std::int64_t every, double factor, Where where = Where::current());

/// rate * factor^(number of milestones <= step). Throws ValueError unless the milestones ascend.
Schedule multi_step(double rate, std::vector<std::int64_t> milestones, double factor,
                    Where where = Where::current());

/// rate * factor^step
Schedule exponential(double rate, double factor);

/// rate * (1 - step / num_steps)^power; 0 from step num_steps on. Throws ValueError unless
/// num_steps > 0 and power is finite and not negative.
Schedule polynomial(double rate, std::int64_t num_steps, double power = 1,
                    Where where = Where::current());

/// minimum + (rate - minimum) * (1 + cos(pi * step / num_steps)) / 2; the minimum from step
/// num_steps on. Throws ValueError unless num_steps > 0.
/// Paper: Loshchilov and Hutter 2016, arXiv:1608.03983, without restarts
Schedule cosine(double rate, std::int64_t num_steps, double minimum = 0,
                Where where = Where::current());

struct OneCycleOptions {
  double rising_part = 0.3;    ///< share of the steps in which the rate rises
  double start_divisor = 25;   ///< the first rate is rate / start_divisor
  double final_divisor = 1e4;  ///< the last rate is the first rate / final_divisor
};

/// Rises to `rate` along half a cosine, then falls along another, as PyTorch's OneCycleLR; the last
/// rate holds from step num_steps - 1 on. Throws ValueError unless num_steps > 1, 0 < rising_part <
/// 1, and the divisors are finite and positive.
/// Paper: Smith and Topin 2017, arXiv:1708.07120
Schedule one_cycle(double rate, std::int64_t num_steps, const OneCycleOptions& options = {},
                   Where where = Where::current());

/// In the first num_steps steps the rate grows linearly towards after(0): after(0) * (step + 1) /
/// (num_steps + 1). Then it is after(step - num_steps). Throws ValueError unless num_steps >= 0 and
/// `after` is a function.
Schedule warm_up(std::int64_t num_steps, Schedule after, Where where = Where::current());

/// One schedule after another: schedules[i] begins, with its step 0, at step milestones[i - 1].
/// Throws ValueError unless the milestones ascend and are one fewer than the schedules, and all
/// schedules are functions.
Schedule sequential(std::vector<Schedule> schedules, std::vector<std::int64_t> milestones,
                    Where where = Where::current());

}  // namespace ringrad::nn
