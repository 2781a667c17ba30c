// Ranks that talk through MPI: what mpirun, or srun with PMIx, has started.
//
//     mpirun -n 4 ./train                        comm = join_mpi_group();
//
// MPI is initialised when the first group is joined, unless the program has done that, and finalised when the
// program ends, if this library initialised it. All its calls here are nonblocking and asked for, so they keep the
// deadline, but for three that MPI has in no such form. MPI_Init and MPI_Finalize are watched (mpi_watchdog.h): a
// process in which they do not return in time, join_timeout and the longest deadline of its groups, says which ranks
// are missing and ends, and mpirun ends the job. The making of a smaller group (split) has no deadline. Which networks
// are used is for MPI to decide. Programs that spawn processes through MPI must initialise it themselves: the ranks'
// shared-memory files have no names after MPI_Init (mpi_segments.h).
//
// What differs from other backends:
//
// - When a rank's process ends without MPI's finalisation, mpirun ends the whole job; no rank is told. A rank that
//   is late, was stopped, or has left the group is named at the deadline. After such a failure the program's end
//   waits for the other ranks' for as long as a call would, and then mpirun ends the job.
// - There is no shrink().
// - MPI cannot take back what it has begun. The tensors of a call that failed stay allocated, and may still be
//   written to while other groups of the process work.
// - Messages make progress while their sender is in a call of this group or another.
// - Several threads may use groups at the same time if MPI provides MPI_THREAD_MULTIPLE, which is what this library asks
//   for when it initialises MPI. Otherwise a call by another thread than the one that initialised MPI throws.

#pragma once

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/comm/engine_communicator.h"
#include "parallel/comm/store.h"

namespace ringrad {

/// The communicator of this process among all that mpirun has started. Every rank must call it, and equally often.
/// A program that nobody started as one of several is the only rank, and does without MPI.
///
/// Rank 0 serves the job's store, and broadcasts its address and token over MPI.
/// Throws: ValueError if another launcher started several ranks; CollectiveError if they do not come in time
std::unique_ptr<Communicator> join_mpi_group(const EngineOptions& options = {},
                                             Where where = Where::current());

struct MpiGroup {
  std::unique_ptr<Communicator> comm;
  Store store;  ///< reaches the job's store from every host
};

/// The same, with the store: for groups that stand on this one.
MpiGroup join_mpi_group_with_store(const EngineOptions& options = {},
                                   Where where = Where::current());

}  // namespace ringrad
