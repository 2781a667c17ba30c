#pragma once

// Timing for programs that are compared with each other on a shared machine.
//
//   sample   = seconds of a batch of calls that lasts at least 2 ms, divided by the batch
//   Timing   = median and interquartile range over 9 or more samples, after a warm-up
//
// Two effects distort a measurement on a small virtual machine, so each Timing records both:
//   * other processes: CPU seconds of the whole machine less our own, during the samples -> `busy`;
//   * the hypervisor, which moves and slows virtual CPUs: the speed of a fixed small loop, run on
//     as many threads at once as the measured code uses -> `reference_gbps`. A slow phase
//     shows only against the other measurements of one run, so the reader must judge it.
//
// Thread rule: call from the thread that runs the measured code.

#include <functional>
#include <vector>

namespace ringrad::bench {

struct Timing {
  double us = 0;              // median time of one call
  double iqr_percent = 0;     // (75th - 25th percentile) / median
  double reference_gbps = 0;  // speed of the reference loop around the samples; higher is faster
  bool busy = false;          // other processes used the CPUs during the samples
};

/// The middle value; for an even number of values, the mean of the two middle ones. REQUIRES: at
/// least one value
double median(std::vector<double> values);

/// Seconds on a clock that never goes back.
double now_seconds();

/// CPU seconds that this process has used, over all its threads.
double process_cpu_seconds();

/// Watches the machine between construction and `judge`.
class MachineWatch {
 public:
  /// Runs the reference loop on `threads` threads for about 2 ms, then starts to watch.
  explicit MachineWatch(int threads);

  /// Median and range of `samples` (seconds per call), with the verdict on the time since
  /// construction, during which our own processes used `own_cpu_seconds`.
  Timing judge(std::vector<double> samples, double own_cpu_seconds) const;

 private:
  int threads_;
  double reference_gbps_;
  double start_;
  double machine_cpu_;
};

/// Times `call`, which uses `threads` threads; the samples together take about `seconds`.
Timing time_calls(int threads, const std::function<void()>& call, double seconds = 0.3);

/// As time_calls, for a caller that takes the samples (seconds per call) itself.
Timing time_samples(int threads, const std::function<std::vector<double>()>& take_samples);

/// The time of one of the `count` equal items in a call.
Timing per_item(Timing timing, int count);

}  // namespace ringrad::bench
