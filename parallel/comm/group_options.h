// What the maker of a group decides, and the plans that follow.
//
// The planner of each collective is an option: an algorithm's name (plan/algorithms.h) or a function
// of the user's. A plan is proved before it runs for the first time.

#pragma once

#include <chrono>
#include <memory>

#include "core/error.h"
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

/// Throws: ValueError unless world_size is in [1, kMaxRanks] and deadline > 0
void check_options(int world_size, const GroupOptions& options, Where where);

/// The plans of a group's collectives; ranks of one process may have them together.
///
/// Throws: as check_options; ValueError unless every collective has a planner, and segments is in
///         [0, kMaxPlanChunks / world_size] (program_cache.h)
std::shared_ptr<ProgramCache> make_programs(int world_size, const GroupOptions& options,
                                            Where where);

}  // namespace ringrad
