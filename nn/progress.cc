#include "ringrad/nn/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ringrad/core/draw/svg.h"

namespace ringrad::nn {
namespace {

constexpr int kBarWidth = 20;

// "0:07", "2:41:05"
std::string clock_text(double seconds) {
  const auto total = static_cast<long long>(seconds + 0.5);
  char text[48];
  if (total >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", total / 3600, total / 60 % 60,
                  total % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", total / 60, total % 60);
  return text;
}

// "[=====>    ]"
std::string bar(std::int64_t done, std::int64_t all) {
  const double part = static_cast<double>(done) / static_cast<double>(all);
  std::string text(static_cast<std::size_t>(kBarWidth * part), '=');
  if (text.size() < kBarWidth) text += '>';
  text.resize(kBarWidth, ' ');
  return '[' + text + ']';
}

std::string text_of(Progress::Values values) {
  std::string text;
  for (const auto& [name, value] : values) text += concat("  ", name, ' ', number_text(value));
  return text;
}

}  // namespace

Progress::Progress(int num_epochs, std::int64_t steps_per_epoch, std::ostream& out, Where where)
    : out_(out),
      is_terminal_(&out == &std::cerr && isatty(STDERR_FILENO) == 1),
      num_epochs_(num_epochs),
      steps_per_epoch_(steps_per_epoch) {
  RINGRAD_CHECK(num_epochs > 0, ValueError, where,
                "Progress: there must be at least one epoch; got ", num_epochs);
  RINGRAD_CHECK(steps_per_epoch > 0, ValueError, where,
                "Progress: an epoch must have at least one step; got ", steps_per_epoch);
  start_epoch();
}

Progress::~Progress() {
  if (is_line_open_) out_ << std::endl;
}

void Progress::start_epoch() {
  num_steps_ = num_samples_ = 0;
  epoch_start_ = next_draw_ = Clock::now();
}

void Progress::step(std::int64_t num_samples, Values values, Where where) {
  RINGRAD_CHECK(num_ended_ < num_epochs_, ValueError, where,
                "Progress: no step may follow the last epoch; got one after ", num_epochs_);
  RINGRAD_CHECK(num_steps_ < steps_per_epoch_, ValueError, where,
                "Progress: an epoch must have at most ", steps_per_epoch_, " steps; got one more");
  RINGRAD_CHECK(num_samples >= 0, ValueError, where,
                "Progress: the number of samples must not be negative; got ", num_samples);
  num_samples_ += num_samples;
  const bool is_last = ++num_steps_ == steps_per_epoch_;
  const auto now = Clock::now();
  if (now < next_draw_ && !is_last) return;
  next_draw_ = now + (is_terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5));
  const double seconds = std::chrono::duration<double>(now - epoch_start_).count();
  if (is_terminal_)
    out_ << '\r' << line(values, seconds) << "\033[K" << std::flush;
  else
    out_ << line(values, seconds) << std::endl;
  is_line_open_ = is_terminal_;
}

std::string Progress::line(Values values, double seconds) const {
  const auto done = static_cast<double>(num_steps_), all = static_cast<double>(steps_per_epoch_);
  const double left = all - done + (num_epochs_ - num_ended_ - 1) * all;
  const double per_second = static_cast<double>(num_samples_) / std::max(seconds, 1e-9);
  return concat("epoch ", num_ended_ + 1, '/', num_epochs_, ' ', bar(num_steps_, steps_per_epoch_),
                ' ', num_steps_, '/', steps_per_epoch_, text_of(values), "  ",
                std::llround(per_second), " samples/s  ETA ", clock_text(seconds / done * left));
}

void Progress::end_epoch(Values results, Where where) {
  RINGRAD_CHECK(num_ended_ < num_epochs_, ValueError, where, "Progress: there must be at most ",
                num_epochs_, " epochs; got one more");
  if (is_line_open_ || results.size() > 0) out_ << text_of(results) << std::endl;
  is_line_open_ = false;
  ++num_ended_;
  start_epoch();
}

}  // namespace ringrad::nn
