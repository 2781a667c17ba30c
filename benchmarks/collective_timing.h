#pragma once

// Timing of a collective, which ranks call together from their own threads or processes.
//
//   rank 0   | barrier | call x batch | barrier |          a sample is the time of the
//   rank 1   | barrier | call x batch   | barrier |        slowest rank, per call
//
// The ranks meet on a RankBoard, a plain struct in memory that all of them see: an ordinary object
// for threads, a shared mapping for processes. Its barrier spins and yields, so that it costs
// little compared with the collective and does not depend on the library under test.

#include <sys/types.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>

#include "ringrad/benchmarks/timing.h"

namespace ringrad::bench {

struct RankBoard {
  static constexpr int kMaxRanks = 256;

  struct Entry {
    double seconds;      // per call, in the last sample
    double cpu_seconds;  // of the rank's process
    pid_t process;
  };

  std::atomic<int> arrived{0};
  std::atomic<int> generation{0};
  std::atomic<int> batch{1};
  std::atomic<bool> broken{false};
  std::array<Entry, kMaxRanks> entries{};

  /// Returns once all `ranks` have called it.
  ///
  /// Throws: std::runtime_error once a rank has set `broken`, or after one minute
  void barrier(int ranks);
};

struct TimingPlan {
  int samples = 15;
  double batch_seconds = 4e-3;
  int most_calls = 5000;  ///< per batch
};

/// Times calls. Each of the `ranks` must call this with the same board and plan; rank 0 gets the
/// result.
///
/// `run_batch(calls)` makes that many calls, waits until they are done, and returns the seconds
/// they took.
/// Throws: as barrier
std::optional<Timing> time_collective(RankBoard& board, int rank, int ranks, const TimingPlan& plan,
                                      const std::function<double(int calls)>& run_batch);

/// Binds the calling thread to one processor, the rank-th, if there are as many processors as
/// ranks.
void pin_rank(int rank, int ranks);

}  // namespace ringrad::bench
