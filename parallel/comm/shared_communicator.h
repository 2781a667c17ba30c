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
// The planner of each collective is an option: an algorithm's name (plan/algorithms.h) or a function
// of the user's. A plan is proved before it runs for the first time. Large tensors are cut into
// segments, so that what one rank has summed is still in a cache when the next one needs it.

#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/comm/group_memory.h"
#include "parallel/comm/program_cache.h"
#include "parallel/plan/algorithms.h"
#include "parallel/plan/direct_plan.h"
#include "parallel/plan/ring_plan.h"

namespace ringrad {

/// The most ranks of one group.
inline constexpr int kMaxRanks = 256;

struct GroupOptions {
  /// The longest that a call waits for other ranks.
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);
  Planner all_reduce = ring_all_reduce;
  Planner reduce_scatter = ring_reduce_scatter;
  Planner all_gather = ring_all_gather;
  Planner broadcast = direct_broadcast;
  Planner reduce = direct_reduce;
  Planner all_to_all = pairwise_all_to_all;
  /// How many segments an all_reduce, a broadcast or a reduce is cut into, if its plan can be; 0
  /// chooses by size.
  int segments = 0;
};

// What make_thread_group() and join_process_group() are made of.

/// The memory that the ranks of a group share, and how it begins: one rank makes it before any other looks.
std::size_t shared_bytes(int world_size);
void make_shared(std::byte* shared, int world_size);

/// The plans of a group's collectives; ranks of one process may have them together.
///
/// Throws: ValueError unless world_size is in [1, kMaxRanks], deadline > 0, every collective has a planner,
///         segments is in [0, kMaxPlanChunks / world_size] (program_cache.h)
std::shared_ptr<ProgramCache> make_programs(int world_size, const GroupOptions& options,
                                            Where where);

/// Destroying it means that its rank has left: whoever waits for it gets an error.
///
/// REQUIRES: memory->shared() was made for this world_size
std::unique_ptr<Communicator> make_shared_communicator(std::string group, int rank, int world_size,
                                                       std::shared_ptr<GroupMemory> memory,
                                                       std::shared_ptr<ProgramCache> programs,
                                                       const GroupOptions& options);

}  // namespace ringrad
