#pragma once

// Runs a case of benchmarks/collectives in processes of its own, so that no case sees another's
// leftovers. The processes are the case's ranks, one process with the ranks as threads, or mpirun
// with this program.

#include "ringrad/benchmarks/collective_rank.h"

namespace ringrad::bench {

/// Starts the case's processes, waits for them, and returns rank 0's measurements.
///
/// REQUIRES: this process has no other threads
/// Throws:   CollectiveError with the first rank's reason if one fails, or if they have not ended
///           after `deadline_seconds`; all are ended then. Error if this process receives SIGINT or
///           SIGTERM
Measured run_case(const CollectiveCase& one, double deadline_seconds);

/// The main function of a process that mpirun starts: this program with these two arguments.
/// Returns the exit status.
inline constexpr char kPartOfCase[] = "--part-of-case";
int run_part_of_case(const char* path);

}  // namespace ringrad::bench
