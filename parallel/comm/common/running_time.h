// RunningTime: how long a thread has watched something, counting only time in which the thread
// itself was running.
//
//     a tick of 10 ms that took     10 ms   counts 10 ms
//                                  900 ms   counts 20 ms: on a loaded machine this thread was
//                                           890 ms late, and so may be what it watches
//
// So a limit on such a time grows with the machine's load, and a thread that was stopped accuses no
// rank.

#pragma once

#include <algorithm>
#include <chrono>

namespace ringrad {

class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;

  /// Begins now. `tick` is the time from one advance() to the next on an idle machine.
  explicit RunningTime(Clock::duration tick) : longest_(2 * tick) {}

  /// The time so far.
  Clock::duration advance(Clock::time_point now = Clock::now()) {
    total_ += std::min(now - last_, longest_);
    last_ = now;
    return total_;
  }

 private:
  Clock::duration longest_;
  Clock::time_point last_ = Clock::now();
  Clock::duration total_{};
};

}  // namespace ringrad
