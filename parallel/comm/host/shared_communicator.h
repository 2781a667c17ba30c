// A communicator for ranks that reach each other's memory: threads of one process, or processes of
// one machine.
//
// Collectives are plans (parallel/plan). host_runner.h runs them on CPU tensors, device_runner.h on
// GPU tensors.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/memory/group_memory.h"

namespace ringrad {

class ProgramCache;

// The basis of make_thread_group() and join_process_group().

/// The size of the memory that the ranks of a group share, and its initialisation, which one rank
/// must do before any other reads it.
std::size_t shared_bytes(int world_size);
void make_shared(std::byte* shared, int world_size);

/// Destroying it means that its rank has left: ranks that wait for it get an error.
///
/// REQUIRES: memory->shared() was made for this world_size
std::unique_ptr<Communicator> make_shared_communicator(std::string group, int rank, int world_size,
                                                       std::shared_ptr<GroupMemory> memory,
                                                       std::shared_ptr<ProgramCache> programs,
                                                       const GroupOptions& options);

}  // namespace ringrad
