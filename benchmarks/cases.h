#pragma once

// The contract between `benchmarks/compare` and every program that it runs, ours and the peers'.
//
//   PROGRAM [--suite NAME] [--only REGEX] [--list]
//
// runs the cases whose names match and prints one line of tab-separated values per result:
//
//   suite  name  threads  us  iqr_percent  rate  unit  reference_gbps  flag
//
//   name     family/what/extents[@variant], e.g. step/convnet/B:128@channels_last. Results of the
//            same name are compared; of the variants of one suite the fastest counts.
//   threads  OMP_NUM_THREADS
//   rate     work per second in `unit`, or a memory size with us = 0
//   flag     "busy" where other processes disturbed the samples, else "-"
//
// The families: step (a training step), memory (of a step's process), op, eager (cost per tiny
// operation). A step needs a process of its own, because its peak memory is the process's.

#include <functional>
#include <string>
#include <vector>

#include "ringrad/benchmarks/timing.h"

namespace ringrad::bench {

/// Work done by one call, which turns a time into a rate.
struct Work {
  double amount = 0;
  const char* unit = "-";
};
inline Work images(double count) { return {count, "images/s"}; }
inline Work flops(double count) { return {count * 1e-9, "GFLOP/s"}; }
inline Work bytes(double count) { return {count * 1e-9, "GB/s"}; }

/// Prints results, one line each.
class Report {
 public:
  Report(std::string suite, int threads) : suite_(std::move(suite)), threads_(threads) {}

  /// Threads that the measured code may use.
  int threads() const { return threads_; }

  void time(const std::string& name, const Timing& timing, Work work = {}) const;
  void memory(const std::string& name, double mebibytes) const;

  /// Times `call` with time_calls() and prints the result with time().
  void time_calls(const std::string& name, Work work, const std::function<void()>& call) const;

 private:
  std::string suite_;
  int threads_;
};

struct Case {
  std::string name;
  std::function<void(const Report&)> run;
};

/// A training step of `batch` images. `build` makes the network and returns a function that does
/// one whole step (forward, backward, update) and returns the loss.
///
/// Records step/<name>, and memory_peak/<name> and memory_growth/<name>: the most memory the
/// process held, and how much of it came after the libraries were loaded. A step that does not
/// lower the loss over the measurement is an error, so that no broken step is ever compared.
Case step_case(const std::string& name, int batch,
               const std::function<std::function<float()>()>& build);

/// The main function: parses the arguments, runs or lists the cases. A case that throws is named
/// on the error stream, the others still run, and the exit status is 1.
int run_cases(int argc, char** argv, const std::string& default_suite,
              const std::vector<Case>& cases);

}  // namespace ringrad::bench
