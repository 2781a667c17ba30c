// The store of the job that a process's environment describes, and the secret that opens it:
//
//     launcher               server of the store   how ranks get the secret
//     ringrun                ringrun                RINGRAD_TOKEN, which it sets
//     torchrun, srun,        rank 0, at 127.0.0.1   a file that is the user's alone (job_file.h)
//     mpirun, one host
//     the same, any hosts    rank 0, at MASTER_ADDR RINGRAD_TOKEN, which the user sets on all ranks
//
// Groups over MPI need none of this: MPI itself carries the secret (mpi_group.h).

#pragma once

#include <chrono>

#include "ringrad/parallel/comm/store/rank_environment.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

/// A connection to the job's store. If rank 0 serves the store, it does so as long as its process
/// lives, and Store::server_rank() returns 0.
///
/// Throws: ValueError if ranks on several hosts share no secret, or no port, or if MASTER_ADDR is a
///         name that leads rank 0 to a loopback address; CollectiveError if the store does not
///         answer in time, or cannot be served
Store job_store(const RankEnvironment& job, std::chrono::milliseconds timeout,
                Where where = Where::current());

}  // namespace ringrad
