// join_group: the communicator of this process, over a backend chosen by name.
//
//     processes    processes of one machine, over shared memory             process_group.h
//     gloo         processes of one machine or several, over TCP            gloo_group.h
//     mpi          processes started by mpirun, over any network MPI uses   mpi_group.h
//     hierarchical_gloo, hierarchical_mpi
//                  one rank per host over it, shared memory within hosts    hierarchical_group.h
//
// Over Gloo, start the job by ringrun if it is to survive rank 0: under other launchers rank 0
// serves the store (job_store.h), and without the store no group can shrink().
//
// A program that uses this function links all backends. A program that needs only one can include
// that backend's header instead.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/group_options.h"

namespace ringrad {

/// The names of the backends.
std::vector<std::string> backend_names();

/// Joins the group of all ranks that this process's launcher has started. Every rank must call it
/// with the same name and equally often. Options about plans apply to "processes".
///
/// Throws: ValueError for an unknown name; otherwise as the backend's own function
std::unique_ptr<Communicator> join_group(const std::string& backend,
                                         const GroupOptions& options = {},
                                         Where where = Where::current());

}  // namespace ringrad
