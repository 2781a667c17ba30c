#pragma once

// Peer: OpenMPI's own collectives between processes of one host, float32, sum.

#include "ringrad/benchmarks/collective_rank.h"

namespace ringrad::bench {

/// This process's part of a case, under mpirun. Throws: std::runtime_error; as measure
void run_openmpi(SharedCase& shared);

}  // namespace ringrad::bench
