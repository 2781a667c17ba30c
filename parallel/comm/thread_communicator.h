// Ranks as threads of one process: the quickest way to use many cores, and the one to test with.
//
// A collective is a plan (parallel/plan) run by the rules of plan_program.h. Nothing is copied on
// the way: ranks read and write each other's tensors where they lie, and a rank returns only when
// its tensor is its own again. Per rank, for an all_reduce of S bytes over n ranks:
//
//     two ranks, or two_shot    reads S, writes S, waits twice
//     ring of n                 reads 3 (n-1)/n S, writes 2 (n-1)/n S, waits 2 (n-1) times
//
// The planner of an all_reduce is an option, and may be the user's own function: the plan is proved
// before it runs for the first time. Large tensors are cut into segments, so that what one rank has
// summed is still in a cache when the next one needs it.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/plan/collective_plan.h"
#include "parallel/plan/ring_plan.h"

namespace ringrad {

/// Makes an all_reduce plan for (world_size, segments): ring_all_reduce, two_shot_all_reduce, ...
using AllReducePlanner = std::function<CollectivePlan(int world_size, int segments)>;

/// The most ranks of one group, and the most chunks (ranks times segments) of one plan.
inline constexpr int kMaxThreadRanks = 256;
inline constexpr int kMaxPlanChunks = 4096;

struct ThreadGroupOptions {
  /// The longest that a call waits for other ranks.
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);
  AllReducePlanner all_reduce = ring_all_reduce;
  /// How many segments an all_reduce is cut into; 0 chooses by size.
  int segments = 0;
};

/// The communicators of a new group, one per rank, to be given to one thread each. Destroying one
/// means that its rank has left: whoever waits for it gets an error.
///
/// Throws: ValueError unless world_size is in [1, kMaxThreadRanks], deadline > 0, segments
///         is in [0, kMaxPlanChunks / world_size]
std::vector<std::unique_ptr<Communicator>> make_thread_group(int world_size,
                                                             const ThreadGroupOptions& options = {},
                                                             Where where = Where::current());

}  // namespace ringrad
