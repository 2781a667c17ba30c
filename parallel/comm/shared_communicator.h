// A communicator for ranks that reach each other's memory: threads of one process, or processes of one machine.
//
// A collective is a plan (parallel/plan) run by the rules of plan_program.h. Nothing is copied on
// the way: ranks read and write each other's tensors where they lie, if they lie where others reach them
// (group_memory.h), and a rank returns only when its tensor is its own again. Per rank, for an all_reduce of
// S bytes over n ranks:
//
//     two ranks, or two_shot    reads S, writes S, waits twice
//     ring of n                 reads 3 (n-1)/n S, writes 2 (n-1)/n S, waits 2 (n-1) times
//
// Large tensors are cut into segments, so that what one rank has summed is still in a cache when the next one
// needs it.

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
