// Ranks that communicate through Gloo: processes of one machine or several, over TCP.
//
//     ringrun -n 4 ./train                       comm = join_gloo_group();
//     RINGRAD_INTERFACE=eth0 srun -N 2 ./train   over this network; MASTER_ADDR locates rank 0
//
// Ranks find each other in the job's store, and every rank connects to every other. No data leaves
// the machine unless an interface is named (TransportOptions::interface). The connections are not
// encrypted, so name an interface of a trusted network.
//
// If a rank's process ends, the other ranks notice at once, by its connections. If it is stopped,
// they notice at the deadline. They then name the rank as failure_board.h describes. Threads of one
// process may be ranks as well.
//
// Under launchers other than ringrun, rank 0 serves the store (job_store.h). If it dies or stops,
// the others name it, but without the store they cannot shrink().

#pragma once

#include <memory>
#include <string>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/network/transport_communicator.h"
#include "ringrad/parallel/comm/store/store.h"

namespace ringrad {

/// The communicator of this process in the job that its environment describes (rank_environment.h).
/// Every rank must call it equally often.
///
/// Throws: ValueError for an invalid environment or interface; CollectiveError if the ranks do not
///         find each other in time
std::unique_ptr<Communicator> join_gloo_group(const TransportOptions& options = {},
                                              Where where = Where::current());

/// The same for ranks that share a store.
///
/// REQUIRES: no group of this store has had the name before
std::unique_ptr<Communicator> join_gloo_group(Store& store, const std::string& name, int rank,
                                              int world_size, const TransportOptions& options = {},
                                              Where where = Where::current());

}  // namespace ringrad
