// The communicator of this process, over the backend that somebody names.
//
//     processes    processes of one machine, over shared memory             process_group.h
//     gloo         processes of one machine or several, over TCP            gloo_group.h
//     mpi          what mpirun has started, over whatever MPI finds         mpi_group.h
//     hierarchical_gloo, hierarchical_mpi
//                  one rank of each host there, shared memory within hosts  hierarchical_group.h
//
// A program that uses this is linked with all of them; one that needs a single backend includes that one's header.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/group_options.h"

namespace ringrad {

/// The names of the backends.
std::vector<std::string> backend_names();

/// Joins the group of all ranks that this process's launcher has started. Every rank must call it with the same
/// name, and equally often. What the options say of plans counts for "processes".
///
/// Throws: ValueError for an unknown name; as the backend's own function
std::unique_ptr<Communicator> join_group(const std::string& backend,
                                         const GroupOptions& options = {},
                                         Where where = Where::current());

}  // namespace ringrad
