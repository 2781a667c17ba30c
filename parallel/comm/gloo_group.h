// Ranks that talk through Gloo: processes of one machine or of several, over TCP.
//
//     ringrun -n 4 ./train                       comm = join_gloo_group();
//     RINGRAD_INTERFACE=eth0 srun -N 2 ./train   over this network; MASTER_ADDR says where rank 0 is
//
// Ranks find each other in the job's store, and each is connected to each. Nothing leaves the machine unless an
// interface is named (EngineOptions::interface). The connections are not encrypted: name one of a network that
// you trust.
//
// A rank whose process ends is noticed at once, by its connections; one that was stopped, at the deadline. The others
// then name it as failure_board.h says. Threads of one process may be ranks as well.

#pragma once

#include <memory>
#include <string>

#include "parallel/comm/communicator.h"
#include "parallel/comm/engine_communicator.h"
#include "parallel/comm/store.h"

namespace ringrad {

/// The communicator of this process in the job that its environment tells of (rank_environment.h). Every rank must
/// call it, and equally often.
///
/// Throws: ValueError for an environment or an interface that makes no sense; CollectiveError if the ranks do not
///         find each other in time
std::unique_ptr<Communicator> join_gloo_group(const EngineOptions& options = {},
                                              Where where = Where::current());

/// The same for ranks that share a store.
///
/// REQUIRES: no group of this store has had the name before
std::unique_ptr<Communicator> join_gloo_group(Store& store, const std::string& name, int rank,
                                              int world_size, const EngineOptions& options = {},
                                              Where where = Where::current());

}  // namespace ringrad
