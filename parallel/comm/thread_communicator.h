// Ranks as threads of one process: the quickest way to use many cores, and the one to test with.
//
// A collective is a plan (parallel/plan) run by the rules of plan_program.h. Ranks read and write
// each other's tensors where they lie; only plans that stage copies make any, and a rank returns only
// when its tensor is its own again. Per rank, for an all_reduce of S bytes over n ranks:
//
//     two ranks, or two_shot    reads S, writes S, waits twice
//     ring of n                 reads 3 (n-1)/n S, writes 2 (n-1)/n S, waits 2 (n-1) times
//
// Which plan a collective runs is an option: the name of an algorithm, or a function, which may be
// the user's own: a plan is proved before it runs for the first time. Large tensors are cut into
// segments, so that what one rank has summed is still in a cache when the next one needs it.

#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/plan/algorithms.h"
#include "parallel/plan/direct_plan.h"
#include "parallel/plan/ring_plan.h"

namespace ringrad {

/// The most ranks of one group.
inline constexpr int kMaxThreadRanks = 256;

struct ThreadGroupOptions {
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

/// The communicators of a new group, one per rank, to be given to one thread each. Destroying one
/// means that its rank has left: whoever waits for it gets an error.
///
/// Throws: ValueError unless world_size is in [1, kMaxThreadRanks], deadline > 0, every collective
///         has a planner, segments is in [0, kMaxPlanChunks / world_size] (program_cache.h)
std::vector<std::unique_ptr<Communicator>> make_thread_group(int world_size,
                                                             const ThreadGroupOptions& options = {},
                                                             Where where = Where::current());

}  // namespace ringrad
