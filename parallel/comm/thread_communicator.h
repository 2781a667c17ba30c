// Ranks as threads of one process: the quickest way to use many cores, and the one to test with. Every tensor
// lies where all ranks reach it.

#pragma once

#include <memory>
#include <vector>

#include "parallel/comm/shared_communicator.h"

namespace ringrad {

/// The communicators of a new group, one per rank, to be given to one thread each. Destroying one
/// means that its rank has left: whoever waits for it gets an error.
///
/// Throws: as make_programs (group_options.h)
std::vector<std::unique_ptr<Communicator>> make_thread_group(int world_size,
                                                             const GroupOptions& options = {},
                                                             Where where = Where::current());

}  // namespace ringrad
