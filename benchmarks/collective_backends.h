#pragma once

// The backends of benchmarks/collectives: ours, the peers they are compared with, and the limits of
// the machine.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringrad/benchmarks/collective_case.h"
#include "ringrad/benchmarks/collective_rank.h"

namespace ringrad::bench {

struct Backend {
  enum class Kind : std::uint8_t { ours, peer, limit };
  enum class Ranks : std::uint8_t { threads, processes, mpirun };

  const char* name;
  Kind kind;
  Ranks ranks;
  bool has_plans;  ///< its algorithms are the plans of parallel/plan
  const char* help;
};

const std::vector<Backend>& backends();

/// REQUIRES: a backend of this name exists
const Backend& backend_named(std::string_view name);

/// The selectable algorithms, "default" first, for backends that have any.
std::vector<std::string> algorithms_of(const Backend& backend, Routine routine);

/// What `gpus` offers besides the plans of all_reduce: kernels, and ways to move data.
const std::vector<std::pair<std::string, DeviceAlgorithm>>& device_algorithms();
const std::vector<std::pair<std::string, DeviceTransfers>>& device_transfers();

/// Runs this process's part of a case: one rank, or all of them if ranks are threads; under mpirun
/// it determines its own rank.
///
/// Throws: the errors of its ranks
void run_part(SharedCase& shared, int rank);

}  // namespace ringrad::bench
