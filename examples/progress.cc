#include "ringrad/examples/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace ringrad {
namespace {

constexpr int kBarWidth = 20;

// "0:07", "2:41:05"
std::string clock_text(double seconds) {
  const int total = static_cast<int>(seconds + 0.5);
  char text[32];
  if (total >= 3600)
    std::snprintf(text, sizeof text, "%d:%02d:%02d", total / 3600, total / 60 % 60, total % 60);
  else
    std::snprintf(text, sizeof text, "%d:%02d", total / 60, total % 60);
  return text;
}

}  // namespace

Progress::Progress(int num_epochs, std::int64_t batches_per_epoch)
    : num_epochs_(num_epochs),
      batches_per_epoch_(batches_per_epoch),
      is_terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::start_epoch(int epoch) {
  epoch_ = epoch;
  images_ = 0;
  epoch_start_ = next_draw_ = Clock::now();
}

void Progress::update(std::int64_t batch, double loss, double accuracy, std::int64_t images) {
  images_ += images;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - epoch_start_).count();
  images_per_second_ = static_cast<double>(images_) / seconds;
  const bool is_last = batch == batches_per_epoch_;
  if (now < next_draw_ && !is_last) return;
  // A terminal is redrawn ten times per second; a log gets a line every five seconds and per epoch.
  next_draw_ = now + (is_terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5));
  draw(batch, loss, accuracy);
}

void Progress::draw(std::int64_t batch, double loss, double accuracy) {
  const double seconds = std::chrono::duration<double>(Clock::now() - epoch_start_).count();
  const std::int64_t batches_left =
      batches_per_epoch_ - batch + (num_epochs_ - epoch_) * batches_per_epoch_;
  const double eta = seconds / static_cast<double>(batch) * static_cast<double>(batches_left);
  const auto filled = static_cast<std::size_t>(kBarWidth * batch / batches_per_epoch_);
  std::string bar(filled, '=');
  if (filled < kBarWidth) bar += '>';
  bar.resize(kBarWidth, ' ');
  std::fprintf(
      stderr, "%sepoch %d/%d [%s] %lld/%lld  loss %.4f  accuracy %.3f  %.0f images/s  ETA %s%s",
      is_terminal_ ? "\r" : "", epoch_, num_epochs_, bar.c_str(), static_cast<long long>(batch),
      static_cast<long long>(batches_per_epoch_), loss, accuracy, images_per_second_,
      clock_text(eta).c_str(), is_terminal_ ? "\033[K" : "\n");
}

void Progress::end_epoch(double test_accuracy) {
  std::fprintf(stderr, "%s  test accuracy %.4f\n", is_terminal_ ? "" : "  ", test_accuracy);
}

}  // namespace ringrad
