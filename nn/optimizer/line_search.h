// A line search for LBFGS: how far to go along a direction.
//
// With phi(t) the loss after a step of length t, the search wants a t that lowers the loss enough
// and at which the loss is nearly flat (the strong Wolfe conditions):
//
//     phi(t) <= phi(0) + 1e-4 t phi'(0)     and     |phi'(t)| <= 0.9 |phi'(0)|
//
// It first goes further and further until two trials enclose such a t, and then narrows the
// bracket. New trials are minima of the cubic polynomial through values and slopes at the ends.
//
// Book: Nocedal and Wright, "Numerical Optimization", 2nd edition, algorithms 3.5 and 3.6

#pragma once

#include <functional>

#include "ringrad/core/tensor.h"

namespace ringrad::nn {

/// The loss at a distance along the direction.
struct LineTrial {
  double step;
  double value;
  double slope;     ///< derivative by the step: gradient . direction
  Tensor gradient;  ///< by the parameters
};

/// The best trial found, of at most max_trials + 1; usually one that fulfils both conditions.
/// Values that are not finite count as too large.
///
/// `smallest_step` ends the search once the bracket is shorter.
/// REQUIRES: start.step == 0, start.slope < 0, first_step > 0
LineTrial strong_wolfe(const LineTrial& start, double first_step, double smallest_step,
                       int max_trials, const std::function<LineTrial(double step)>& evaluate);

}  // namespace ringrad::nn
