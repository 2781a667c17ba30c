// Progress of a training run: one line that is rewritten on a terminal, plain lines elsewhere.
//
//     epoch 1/3 [=========>          ] 214/469  loss 0.4127  accuracy 0.851  912 images/s  ETA 0:36

#pragma once

#include <chrono>
#include <cstdint>

namespace ringrad {

class Progress {
 public:
  /// Writes to standard error.
  Progress(int num_epochs, std::int64_t batches_per_epoch);

  void start_epoch(int epoch);
  /// After a batch of the current epoch: averages so far, and the number of images on all ranks.
  void update(std::int64_t batch, double loss, double accuracy, std::int64_t images);
  /// Ends the epoch's line with the accuracy on the test set.
  void end_epoch(double test_accuracy);

 private:
  using Clock = std::chrono::steady_clock;

  void draw(std::int64_t batch, double loss, double accuracy);

  int num_epochs_;
  std::int64_t batches_per_epoch_;
  bool is_terminal_;
  int epoch_ = 0;
  std::int64_t images_ = 0;
  double images_per_second_ = 0;
  Clock::time_point epoch_start_;
  Clock::time_point next_draw_;
};

}  // namespace ringrad
