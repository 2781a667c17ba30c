#include "ringrad/nn/optimizer/line_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringrad::nn {
namespace {

constexpr double kDecrease = 1e-4, kFlatness = 0.9;

// The minimum, within [low, high], of the cubic through values and slopes at a and b; their middle
// if there is none.
double cubic_minimum(const LineTrial& a, const LineTrial& b, double low, double high) {
  const LineTrial &left = a.step <= b.step ? a : b, &right = a.step <= b.step ? b : a;
  const double mean =
      left.slope + right.slope - 3 * (left.value - right.value) / (left.step - right.step);
  const double square = mean * mean - left.slope * right.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double root = std::sqrt(square);
  const double part = (right.slope + root - mean) / (right.slope - left.slope + 2 * root);
  const double minimum = right.step - (right.step - left.step) * part;
  return std::isfinite(minimum) ? std::clamp(minimum, low, high) : (low + high) / 2;
}

// The search of one direction.
class Search {
 public:
  Search(const LineTrial& start, double smallest_step, int max_trials,
         const std::function<LineTrial(double step)>& evaluate)
      : start_(start),
        smallest_step_(smallest_step),
        trials_left_(max_trials),
        evaluate_(evaluate) {}

  LineTrial run(double first_step) {
    if (expand(first_step)) return low_;
    narrow();
    return low_;
  }

 private:
  bool is_high(const LineTrial& trial) const {
    return !(trial.value <= start_.value + kDecrease * trial.step * start_.slope);
  }
  bool is_flat(const LineTrial& trial) const {
    return std::abs(trial.slope) <= -kFlatness * start_.slope;
  }

  // Low is the end with the smaller value.    REQUIRES: a.value is finite
  void set_bracket(LineTrial a, LineTrial b) {
    low_ = std::move(a);
    high_ = std::move(b);
    if (high_.value < low_.value) std::swap(low_, high_);
  }

  // Finds a bracket. Returns true if a trial fulfils both conditions; it is then low_.
  bool expand(double step) {
    LineTrial before = start_, now = evaluate_(step);
    for (int trial = 0; trials_left_ > 0; ++trial, --trials_left_) {
      if (is_high(now) || (trial > 1 && now.value >= before.value) ||
          (!is_flat(now) && now.slope >= 0)) {
        set_bracket(std::move(before), std::move(now));
        return false;
      }
      if (is_flat(now)) {
        low_ = std::move(now);
        return true;
      }
      const double next =
          cubic_minimum(before, now, now.step + 0.01 * (now.step - before.step), 10 * now.step);
      before = std::exchange(now, evaluate_(next));
    }
    set_bracket(start_, std::move(now));
    return false;
  }

  void narrow() {
    bool stays_near_an_end = false;
    for (; trials_left_ > 0; --trials_left_) {
      if (std::abs(high_.step - low_.step) < smallest_step_) return;
      LineTrial trial = evaluate_(next_inside(stays_near_an_end));
      if (is_high(trial) || trial.value >= low_.value) {
        set_bracket(low_, std::move(trial));
        continue;
      }
      const bool done = is_flat(trial);
      if (!done && trial.slope * (high_.step - low_.step) >= 0) high_ = low_;
      low_ = std::move(trial);
      if (done) return;
    }
  }

  // The next step to try. One that comes close to an end twice in a row, or lies on it, is moved
  // inwards by a tenth of the bracket: otherwise the bracket would hardly shrink.
  double next_inside(bool& stays_near_an_end) const {
    const double left = std::min(low_.step, high_.step), right = std::max(low_.step, high_.step);
    const double margin = 0.1 * (right - left);
    const double step = cubic_minimum(low_, high_, left, right);
    if (std::min(right - step, step - left) >= margin) {
      stays_near_an_end = false;
      return step;
    }
    if (!stays_near_an_end && step > left && step < right) {
      stays_near_an_end = true;
      return step;
    }
    stays_near_an_end = false;
    return right - step < step - left ? right - margin : left + margin;
  }

  const LineTrial& start_;
  double smallest_step_;
  int trials_left_;
  const std::function<LineTrial(double step)>& evaluate_;
  LineTrial low_, high_;
};

}  // namespace

LineTrial strong_wolfe(const LineTrial& start, double first_step, double smallest_step,
                       int max_trials, const std::function<LineTrial(double step)>& evaluate) {
  return Search(start, smallest_step, max_trials, evaluate).run(first_step);
}

}  // namespace ringrad::nn
