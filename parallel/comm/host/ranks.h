// run_ranks: the same function on n ranks, each a thread of this process.
//
//     run_ranks(2, [](Communicator& comm) { train(comm); });
//
// An exception on one rank breaks the group, so that no other rank waits for it in vain. The other
// ranks get CollectiveErrors as a consequence. Once all ranks have ended, run_ranks throws the
// cause.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/host/thread_communicator.h"

namespace ringrad {

/// Calls body(communicator) on `world_size` threads and returns when all have returned. Each rank's
/// OpenMP team is an equal share of the calling thread's, at least one thread.
///
/// Throws: ValueError unless world_size is in [1, kMaxRanks]. An Error from `body` is rethrown
///         with its type, its source line, and "rank r: " before its message; another
///         std::exception as Error in the same form; anything else as it is. An exception of a
///         type that is not the library's is nested: std::rethrow_if_nested gives it back.
void run_ranks(int world_size, const std::function<void(Communicator&)>& body,
               const GroupOptions& options = {}, Where where = Where::current());

/// The core of run_ranks: one thread per communicator, each with an OpenMP team of `team` threads.
/// The communicators may be all or some of a group. Exceptions from `body` are rethrown as by
/// run_ranks.
void run_on_threads(std::vector<std::unique_ptr<Communicator>> comms, int team,
                    const std::function<void(Communicator&)>& body, Where where = Where::current());

}  // namespace ringrad
