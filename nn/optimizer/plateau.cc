#include "ringrad/nn/optimizer/plateau.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringrad/nn/optimizer/check_options.h"

namespace ringrad::nn {

Plateau::Plateau(double rate, const PlateauOptions& options, Where where)
    : options_(options),
      rate_(rate),
      best_(options.maximize ? -std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::infinity()) {
  check_not_negative(
      "Plateau", {{"rate", rate}, {"threshold", options.threshold}, {"minimum", options.minimum}},
      where);
  RINGRAD_CHECK(options.factor > 0 && options.factor < 1, ValueError, where,
                "Plateau: factor must lie in (0, 1); got ", options.factor);
  RINGRAD_CHECK(options.patience >= 0 && options.cooldown >= 0, ValueError, where,
                "Plateau: patience and cooldown must not be negative; got ", options.patience,
                " and ", options.cooldown);
}

// Before the first report the best metric is infinite, and so would be a relative threshold.
bool Plateau::is_progress(double metric) const {
  const double least = std::isinf(best_)      ? 0
                       : options_.is_absolute ? options_.threshold
                                              : options_.threshold * std::abs(best_);
  return options_.maximize ? metric > best_ + least : metric < best_ - least;
}

double Plateau::operator()(double metric) {
  if (is_progress(metric)) {
    best_ = metric;
    bad_reports_ = 0;
  } else {
    ++bad_reports_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_reports_ = 0;
  }
  if (bad_reports_ > options_.patience) {
    rate_ = std::min(rate_, std::max(rate_ * options_.factor, options_.minimum));
    cooldown_left_ = options_.cooldown;
    bad_reports_ = 0;
  }
  return rate_;
}

StateDict Plateau::state_dict() const {
  return {{"rate", state_number(rate_)},
          {"best", state_number(best_)},
          {"bad_reports", state_number(bad_reports_)},
          {"cooldown_left", state_number(cooldown_left_)}};
}

void Plateau::check_state_dict(const StateDict& state, Where where) const {
  check_same_layout("load_state_dict", state_dict(), state, where);
  const auto rate = state.at("rate").item<double>(where);
  const auto bad = state.at("bad_reports").item<std::int64_t>(where);
  const auto cooldown = state.at("cooldown_left").item<std::int64_t>(where);
  check_not_negative("load_state_dict", {{"rate", rate}}, where);
  RINGRAD_CHECK(bad >= 0 && cooldown >= 0, ValueError, where,
                "load_state_dict: bad_reports and cooldown_left must not be negative; got ", bad,
                " and ", cooldown);
}

void Plateau::load_state_dict(const StateDict& state, Where where) {
  check_state_dict(state, where);
  rate_ = state.at("rate").item<double>(where);
  best_ = state.at("best").item<double>(where);
  bad_reports_ = state.at("bad_reports").item<std::int64_t>(where);
  cooldown_left_ = state.at("cooldown_left").item<std::int64_t>(where);
}

}  // namespace ringrad::nn
