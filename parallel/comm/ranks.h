// run_ranks: the same function on n ranks, each a thread of this process.
//
//     run_ranks(2, [](Communicator& comm) { train(comm); });
//
// An exception on one rank breaks the group, so that no other rank waits for it in vain. Those get
// CollectiveErrors, which are consequences; what run_ranks throws is the cause, once all ranks have
// ended.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/thread_communicator.h"

namespace ringrad {

/// Calls body(communicator) on `world_size` threads and returns when all have returned. Each rank's
/// OpenMP team is its share of the calling thread's, at least one thread.
///
/// Throws: ValueError unless world_size is in [1, kMaxRanks]. An Error of `body` is rethrown
///         with its type, its source line, and "rank r: " before its message; another
///         std::exception as Error in the same form, with the original nested in it; anything
///         else as it is.
void run_ranks(int world_size, const std::function<void(Communicator&)>& body,
               const GroupOptions& options = {}, Where where = Where::current());

/// What run_ranks is made of: a thread per communicator, which may be all of a group or some, each with an OpenMP team of
/// `team` threads. Throws what run_ranks does of `body`.
void run_on_threads(std::vector<std::unique_ptr<Communicator>> comms, int team,
                    const std::function<void(Communicator&)>& body, Where where = Where::current());

}  // namespace ringrad
