// Progress: how far a training run is, and what it has reached.
//
//     nn::Progress progress(num_epochs, loader.size());
//     for (int epoch = 0; epoch < num_epochs; ++epoch) {
//       for (const Batch& batch : loader) {
//         ...
//         progress.step(batch.size(), {{"loss", loss.item()}});
//       }
//       progress.end_epoch({{"test accuracy", accuracy}});
//     }
//
//     epoch 1/3 [=========>          ] 214/469  loss 0.4127  912 samples/s  ETA 0:36
//
// A terminal shows one line per epoch, rewritten ten times per second. Elsewhere, for example in a
// log file, a plain line appears every five seconds and at the end of each epoch. With many ranks,
// one rank shows the progress of all.

#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <iostream>
#include <string>
#include <utility>

#include "ringrad/core/base/error.h"

namespace ringrad::nn {

class Progress {
 public:
  /// Numbers to show, each after its name.
  using Values = std::initializer_list<std::pair<const char*, double>>;

  /// The first epoch begins now. Standard error is rewritten if it is a terminal; any other stream
  /// gets plain lines.
  ///
  /// Throws:  ValueError unless there are at least one epoch and one step in it
  Progress(int num_epochs, std::int64_t steps_per_epoch, std::ostream& out = std::cerr,
           Where where = Where::current());
  /// Ends a line that an exception or a `break` has left open.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts a step, which processed this many samples, those of other ranks included.
  ///
  /// Throws:  ValueError after the last step of the epoch or of the run, or for a negative number
  void step(std::int64_t num_samples, Values values = {}, Where where = Where::current());

  /// Ends the epoch's line with results of the whole epoch. The next epoch begins now, so time
  /// spent on a test set counts in no epoch's samples per second.
  ///
  /// Throws:  ValueError after the last epoch
  void end_epoch(Values results = {}, Where where = Where::current());

 private:
  using Clock = std::chrono::steady_clock;

  void start_epoch();
  std::string line(Values values, double seconds) const;

  std::ostream& out_;
  const bool is_terminal_;
  const int num_epochs_;
  const std::int64_t steps_per_epoch_;
  int num_ended_ = 0;                             // epochs
  std::int64_t num_steps_ = 0, num_samples_ = 0;  // of this epoch
  bool is_line_open_ = false;
  Clock::time_point epoch_start_, next_draw_;
};

}  // namespace ringrad::nn
