// Ranks that talk through MPI: what mpirun, or srun with PMIx, has started.
//
//     mpirun -n 4 ./train                        comm = join_mpi_group();
//
// MPI is initialised when the first group is joined, unless the program has done that, and finalised when the
// program ends, if this library initialised it. All its calls here are nonblocking and asked for, so they keep the
// deadline, but for the making of a smaller group (split). Which networks are used is for MPI to decide.
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
// - Several threads may use groups at the same time if MPI was initialised with MPI_THREAD_MULTIPLE, as it is here
//   where the library has it.

#pragma once

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/comm/engine_communicator.h"

namespace ringrad {

/// The communicator of this process among all that mpirun has started. Every rank must call it, and equally often.
/// A program that nobody started as one of several is the only rank, and does without MPI.
///
/// Throws: ValueError if another launcher started several ranks; CollectiveError if they do not come in time
std::unique_ptr<Communicator> join_mpi_group(const EngineOptions& options = {},
                                             Where where = Where::current());

}  // namespace ringrad
