#pragma once

// The output of benchmarks/collectives: rows in the format of nccl-tests, and for each size the
// times side by side with the requested ratios.
//
// A time is the median over the rounds that other processes did not disturb. If they disturbed
// every round, it is the median over all, marked "busy" or "~". A ratio is taken within a round;
// its median over the rounds is formed in the same way.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/benchmarks/collective_case.h"
#include "ringrad/benchmarks/collective_rank.h"

namespace ringrad::bench {

/// A case with the measurements of each round.
struct Row {
  CollectiveCase one;
  std::vector<Measured> rounds;

  /// nullopt if the backend does not have the case.
  std::optional<Column> column(bool in_place) const;
  /// The column in place if it was measured, else the other one.
  Column best_column() const;
  std::int64_t wrong() const;
  std::string label() const;  ///< "threads", "threads/ring"
  bool is_limit() const;
};

void print_title();
void print_row(const Row& row);

/// A goal for one size, and whether it is reached. Larger ratios are better.
struct Check {
  std::string name;
  double ratio = 0;
  std::optional<double> goal{};

  bool is_missed() const { return goal && ratio < *goal; }
};

/// One collective, number of ranks and size.
struct SizeSummary {
  CollectiveCase one;
  struct Time {
    double us;
    bool is_busy;
  };
  std::vector<std::pair<std::string, Time>> times;
  std::vector<Check> checks;
};

/// The checks of the rows of each size. Those on CPUs concern our processes, with the first
/// requested algorithm of each backend:
///
///   best peer/ours      the time of OpenMPI or of Gloo's fastest algorithm, whichever is less /
///                       ours. Goal: 1, below 4 KiB 1 / 1.15
///   openmpi/ours        Goal: 2.5 from 64 KiB with 2 ranks, from 1 MiB with 4
///   processes/threads   Goal: 1
///   memcpy/ours         the time in which every rank copies as many bytes / ours. This is the
///                       share of the memory's bandwidth: a sum in place reads and writes as much.
///                       Goal: 0.7 at 64 MiB with 2 ranks
///   device copies/ring  the time in which a GPU copies as many bytes as its ring of ranks reads
///                       and writes / the ring's. In n - 1 steps a chunk of S / n is summed:
///                       kernels read two and write one, after copy engines have brought one. In
///                       n - 1 steps it is copied. Goal: 0.8 at 256 MiB with 8 ranks
///
/// Goals are set for all_reduce only, and not for simulated GPUs.
std::vector<SizeSummary> summarize(const std::vector<Row>& rows);

void print_summaries(const std::vector<SizeSummary>& summaries);

nlohmann::json to_json(const Row& row);
nlohmann::json to_json(const SizeSummary& summary);

}  // namespace ringrad::bench
