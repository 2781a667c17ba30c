// Ranks that communicate through MPI: processes started by mpirun, or by srun with PMIx.
//
//     mpirun -n 4 ./train                        comm = join_mpi_group();
//
// MPI is initialised when the first group is joined, unless the program has done that, and is
// finalised at program exit if this library initialised it. Its calls are nonblocking and polled,
// so they keep the deadline, except for three. MPI_Init and MPI_Finalize are watched
// (mpi_watchdog.h): if one does not return in time (join_timeout, or the longest deadline of the
// groups), the process reports the missing ranks and ends, and mpirun ends the job. Making a
// smaller group (split) has no deadline. MPI chooses the networks. Programs that spawn processes
// through MPI must initialise it themselves, because the ranks' shared-memory files have no names
// after MPI_Init (mpi_segments.h).
//
// Differences from other backends:
// - When a rank's process ends without finalising MPI, mpirun ends the whole job, and no rank is
//   told. A rank that is late, stopped, or has left the group is named at the deadline. After such
//   a failure, program exit waits for the other ranks as long as a call would; then mpirun ends the
//   job.
// - There is no shrink().
// - MPI cannot cancel an operation. The tensors of a failed call stay allocated, and may still be
//   written to while other groups of the process work.
// - Messages make progress while their sender is in a call of this group or another.
// - Several threads may use groups concurrently if MPI provides MPI_THREAD_MULTIPLE, which this
//   library requests. Otherwise calls throw on any thread but the one that initialised MPI.

#pragma once

#include <memory>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/network/transport_communicator.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

/// The communicator of this process among all that mpirun has started. Every rank must call it
/// equally often. A program started without a launcher is the only rank, and does not use MPI.
///
/// Rank 0 serves the job's store, and broadcasts its address and token over MPI.
///
/// Throws: ValueError if another launcher started several ranks; CollectiveError if they do not
///         arrive in time
std::unique_ptr<Communicator> join_mpi_group(const TransportOptions& options = {},
                                             Where where = Where::current());

struct MpiGroup {
  std::unique_ptr<Communicator> comm;
  Store store;  ///< reaches the job's store from every host
};

/// The same, with the store, for groups built on top of this one.
MpiGroup join_mpi_group_with_store(const TransportOptions& options = {},
                                   Where where = Where::current());

/// The ranks of a communicator of the program's own, such as a part of its processes:
///
///     MPI_Comm part;                   // after the program's MPI_Init
///     MPI_Comm_split(MPI_COMM_WORLD, colour, 0, &part);
///     MpiGroup group = join_mpi_communicator(MPI_Comm_c2f(part));
///
/// The handle is MPI's for Fortran, an int in every MPI, so that this header needs no mpi.h. The
/// group works on a copy, so the program may free its own communicator, and the group receives no
/// messages that were sent on it. The group must end before MPI_Finalize; later calls throw
/// CollectiveError.
///
/// Throws: ValueError unless MPI is initialised and the handle is a communicator within one group;
///         CollectiveError if its ranks do not arrive in time
MpiGroup join_mpi_communicator(int handle, const TransportOptions& options = {},
                               Where where = Where::current());

}  // namespace ringrad
