// A communicator for ranks that reach each other's memory: threads of one process, or processes of one machine.
//
// Collectives are plans (parallel/plan), run where the tensors lie: by host_runner.h for those of the CPU, by
// device_runner.h for those of GPUs.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "parallel/comm/communicator.h"
#include "parallel/comm/group_memory.h"
#include "parallel/comm/group_options.h"

namespace ringrad {

// What make_thread_group() and join_process_group() are made of.

/// The memory that the ranks of a group share, and how it begins: one rank makes it before any other looks.
std::size_t shared_bytes(int world_size);
void make_shared(std::byte* shared, int world_size);

/// Destroying it means that its rank has left: whoever waits for it gets an error.
///
/// REQUIRES: memory->shared() was made for this world_size
std::unique_ptr<Communicator> make_shared_communicator(std::string group, int rank, int world_size,
                                                       std::shared_ptr<GroupMemory> memory,
                                                       std::shared_ptr<ProgramCache> programs,
                                                       const GroupOptions& options);

}  // namespace ringrad
