// GroupOptions: the choices made when a group is created.
//
// The planner of each collective is an option: an algorithm's name (plan/collective/algorithms.h)
// or a user's function. A plan is proved before its first run. Without a planner, the ranks measure
// once what messages between them cost (measure_links.h), and each buffer size gets the plan with
// the shortest predicted time.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/rank_names.h"
#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/sum_order.h"
#include "ringrad/parallel/plan/predict/cost.h"

namespace ringrad {

/// The most ranks of one group.
inline constexpr int kMaxRanks = 256;

/// How data move between GPUs.
enum class DeviceTransfers : std::uint8_t {
  automatic,     ///< within a GPU as `kernels`, between GPUs as `copy_engines`
  copy_engines,  ///< a sum's inputs are copied to its GPU while the previous sum is computed
  kernels,       ///< kernels read and write other ranks' memory, where GPUs allow peer access
};

/// What adds tensors on GPUs: the plan of all_reduce, or one kernel per rank
/// (all_reduce_kernels.h), which takes less time for little data. The ranks' kernels wait for each
/// other, so all of them must run at the same time. Ranks that share a GPU therefore need separate
/// streams; otherwise the group uses plans from then on. It also uses plans for tensors that do not
/// fit the kernels' buffers.
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
  /// How long a live process may stay silent before the other ranks count it as lost. 0 (the
  /// default) means a quarter of the deadline, but at least 0.7 verdict_time and at most a minute.
  /// A rank that waits for signs of life counts only time during which it was itself running, so no
  /// rank looks dead merely because the machine is loaded.
  std::chrono::nanoseconds silence = std::chrono::nanoseconds(0);
  /// How far a failing call may exceed the deadline, so that the ranks can agree on the culprit.
  /// Raise it if the machine's load can delay a thread or the store by half of this time.
  std::chrono::nanoseconds verdict_time = std::chrono::seconds(1);
  // The algorithm of each collective. By default (nullptr) the group chooses one by size.
  Planner all_reduce = nullptr;
  Planner reduce_scatter = nullptr;
  Planner all_gather = nullptr;
  Planner broadcast = nullptr;
  Planner reduce = nullptr;
  Planner all_to_all = nullptr;
  /// The order of sums in plans that the group chooses (plan/collective/sum_order.h); `fast` allows
  /// any order.
  SumOrder order = SumOrder::canonical;
  /// The cost of messages, used instead of measuring it. It must be the same on all ranks.
  std::optional<CostModel> links = {};
  /// How many segments an all_reduce, a broadcast or a reduce is cut into, if its plan allows it. 0
  /// (the default) chooses by size.
  int segments = 0;
  DeviceTransfers transfers = DeviceTransfers::automatic;
  DeviceAlgorithm device_all_reduce = DeviceAlgorithm::plan;
  /// The largest tensor that kernels reduce, in bytes. Each rank's GPU reserves four times as much.
  std::size_t kernel_bytes = 1 << 20;
  /// The numbers of the ranks in the job, for messages. split() and shrink() set them.
  RankNames rank_names = {};
  /// The initial value of the group's counters. For tests: some counters are passed on in 32 bits,
  /// which wrap around.
  std::uint64_t first_count = 0;
};

/// The planner of each collective.
std::map<Collective, Planner> planners_of(const GroupOptions& options);

/// How long a rank may be silent: `silence`, or its default, computed from the deadline.
std::chrono::nanoseconds longest_silence(const GroupOptions& options);

/// Throws: ValueError unless world_size is in [1, kMaxRanks], deadline and verdict_time > 0, and
///         silence >= 0
void check_options(int world_size, const GroupOptions& options, Where where);

}  // namespace ringrad
