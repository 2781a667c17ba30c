// What the maker of a group decides, and the plans that follow.
//
// The planner of each collective is an option: an algorithm's name (plan/algorithms.h) or a function
// of the user's. A plan is proved before it runs for the first time.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/error.h"
#include "parallel/comm/program_cache.h"
#include "parallel/plan/algorithms.h"
#include "parallel/plan/direct_plan.h"
#include "parallel/plan/ring_plan.h"

namespace ringrad {

/// The most ranks of one group.
inline constexpr int kMaxRanks = 256;

/// How data move between GPUs.
enum class DeviceTransfers : std::uint8_t {
  automatic,     ///< within a GPU as `kernels`, between GPUs as `copy_engines`
  copy_engines,  ///< what a sum needs is copied to its GPU before, while the one before it is computed
  kernels,       ///< kernels read and write other ranks' memory, where GPUs give each other access
};

/// Who adds tensors on GPUs: the plan of all_reduce, or one kernel per rank (all_reduce_kernels.h), which takes
/// less time for little data. Kernels wait for each other, so all ranks' must run at the same time: ranks that
/// share a GPU need streams of their own, else plans are used from then on, as they are for what kernels have no
/// room for.
enum class DeviceAlgorithm : std::uint8_t {
  plan,
  automatic,  ///< one_shot_kernel for little data, then two_shot_kernel, then the plan
  one_shot_kernel,
  two_shot_kernel,
  ring_kernel,
};

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
  DeviceTransfers transfers = DeviceTransfers::automatic;
  DeviceAlgorithm device_all_reduce = DeviceAlgorithm::plan;
  /// The largest tensor that kernels reduce; each rank's GPU keeps four times as much for them.
  std::size_t kernel_bytes = 1 << 20;
  /// Where the group's counters begin. For tests: some are told to others in 32 bits, which wrap around.
  std::uint64_t first_count = 0;
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
