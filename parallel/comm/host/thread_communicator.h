// Ranks as threads of one process: the quickest way to use many cores, and to test. All ranks can
// reach every tensor.

#pragma once

#include <memory>
#include <vector>

#include "ringrad/parallel/comm/host/shared_communicator.h"

namespace ringrad {

/// The communicators of a new group, one per rank, each for one thread. Destroying one means that
/// its rank has left: ranks that wait for it get an error.
///
/// Throws: as make_programs (memory/program_cache.h)
std::vector<std::unique_ptr<Communicator>> make_thread_group(int world_size,
                                                             const GroupOptions& options = {},
                                                             Where where = Where::current());

}  // namespace ringrad
