#pragma once

// Runs a case of benchmarks/collectives in processes of its own, so that no case sees what another has left: its
// ranks, or the one process that has them as threads, or mpirun with this program.

#include "benchmarks/collective_rank.h"

namespace ringrad::bench {

/// Starts the case's processes, waits for them, and returns what rank 0 has measured.
///
/// REQUIRES: this process has no other threads
/// Throws:   CollectiveError with the first rank's reason if one fails, or if they have not ended after
///           `deadline_seconds`; all are ended then. Error if this process is sent SIGINT or SIGTERM
Measured run_case(const CollectiveCase& one, double deadline_seconds);

/// What mpirun starts: this program with these two arguments. Returns the exit status.
inline constexpr char kPartOfCase[] = "--part-of-case";
int run_part_of_case(const char* path);

}  // namespace ringrad::bench
