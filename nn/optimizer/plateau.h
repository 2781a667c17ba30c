// Plateau: a learning rate that falls when training stops making progress.
//
//     nn::Plateau plateau(0.1, {.patience = 5});
//     for (int epoch = 0; epoch < 50; ++epoch) {
//       ...
//       optimizer.set_learning_rate(plateau(validation_loss));
//     }
//
// Unlike a schedule it has a state, which belongs in a checkpoint.

#pragma once

#include <cstdint>

#include "ringrad/core/base/error.h"
#include "ringrad/nn/state_dict.h"

namespace ringrad::nn {

struct PlateauOptions {
  double factor = 0.1;
  std::int64_t patience = 10;  ///< reports without progress that are tolerated
  double threshold = 1e-4;     ///< smallest change that is progress: see Plateau
  bool is_absolute = false;    ///< the threshold is a difference; else it is relative
  bool maximize = false;       ///< the metric should grow, as an accuracy does
  std::int64_t cooldown = 0;   ///< reports after a reduction that do not count
  double minimum = 0;
};

/// A metric is progress if it is better than the best one so far by more than the threshold:
///
///   metric < best - threshold * |best|      or, with maximize,  metric > best + threshold * |best|
///   metric < best - threshold               if is_absolute      metric > best + threshold
///
/// For positive metrics these are PyTorch's threshold_mode 'rel' and 'abs'. For a negative one,
/// PyTorch's 'rel' compares with best * (1 - threshold), and so takes a metric that got worse for
/// progress. If the best metric is 0, any improvement exceeds a relative threshold: set is_absolute
/// where metrics may be 0.
class Plateau {
 public:
  /// Throws ValueError unless 0 < factor < 1, and rate and the other options are finite and not
  /// negative.
  explicit Plateau(double rate, const PlateauOptions& options = {}, Where where = Where::current());

  /// Reports a metric, such as an epoch's loss; NaN is no progress. Returns the rate from now on:
  /// the rate so far, or `factor` times that rate after more than `patience` reports without
  /// progress.
  double operator()(double metric);

  double rate() const { return rate_; }

  /// "rate" () float64, "best" () float64, "bad_reports" () int64, "cooldown_left" () int64
  StateDict state_dict() const;
  /// Throws as Module::load_state_dict, and ValueError for negative numbers but the best metric.
  void load_state_dict(const StateDict& state, Where where = Where::current());
  /// Throws what load_state_dict would.
  void check_state_dict(const StateDict& state, Where where = Where::current()) const;

 private:
  bool is_progress(double metric) const;

  PlateauOptions options_;
  double rate_, best_;
  std::int64_t bad_reports_ = 0, cooldown_left_ = 0;
};

}  // namespace ringrad::nn
