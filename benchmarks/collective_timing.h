#pragma once

// Timing of a collective, which ranks call together from their own threads or processes.
//
//   rank 0   | barrier | call x batch | barrier |          a sample is the time of the
//   rank 1   | barrier | call x batch   | barrier |        slowest rank, per call
//
// The ranks meet on a RankBoard, a plain struct in memory that all of them see: an ordinary object
// for threads, a shared mapping for processes. Its barrier spins and yields, so that it costs
// little beside the collective and does not depend on the library under test.

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/timing.h"

namespace ringrad::bench {

struct RankBoard {
  static constexpr int kMaxRanks = 8;

  struct Entry {
    double seconds;      // per call, of the last sample
    double cpu_seconds;  // of the rank's process
    pid_t process;
  };

  std::atomic<int> arrived{0};
  std::atomic<int> generation{0};
  std::atomic<int> batch{1};
  std::array<Entry, kMaxRanks> entries{};

  /// Returns once all `ranks` have called it.
  void barrier(int ranks);
};

/// Times `call`; every one of the `ranks` calls this with the same board. Rank 0 gets the result.
std::optional<Timing> time_collective(RankBoard& board, int rank, int ranks,
                                      const std::function<void()>& call);

/// Buffer sizes of the all-reduce cases: 4 B, 16 B, ... 64 MiB.
std::vector<std::size_t> all_reduce_sizes();

/// "allreduce/bytes:1048576"
std::string all_reduce_name(std::size_t bytes);

/// Writes what rank `rank` contributes to a sum that check_sum can judge.
void fill_for_sum(std::span<float> buffer, int rank);

/// Throws unless `buffer` holds the sum of what all `ranks` filled in; then clears it, so that
/// repeated sums in place stay finite.
void check_sum(std::span<float> buffer, int ranks);

}  // namespace ringrad::bench
