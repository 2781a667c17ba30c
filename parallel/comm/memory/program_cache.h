// ProgramCache: the plans of a group's collectives, each made, proved and compiled when it is first
// asked for.
//
// If GroupOptions names a planner for a collective, its plan is taken. Otherwise the cache takes,
// for each size of buffer, the plan with the shortest predicted time among those that add in the
// group's order. A model of the group's links predicts the time (plan/predict/fastest_plan.h).
// Plans for few ranks show which algorithms add in that order; only the plan that is taken is then
// proved for all ranks.

#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/common/collective_call.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/memory/plan_program.h"
#include "ringrad/parallel/plan/predict/fastest_plan.h"

namespace ringrad {

/// The most chunks of one plan, because the proof's time and memory grow with them. An all_to_all,
/// which has one chunk for each pair of ranks, may have more.
inline constexpr int kMaxPlanChunks = 4096;

/// The collective of a call. REQUIRES: the call is one
constexpr Collective collective_of(CollectiveOp op) { return static_cast<Collective>(op); }
static_assert(collective_of(CollectiveOp::all_reduce) == Collective::all_reduce &&
              collective_of(CollectiveOp::reduce_scatter) == Collective::reduce_scatter &&
              collective_of(CollectiveOp::all_gather) == Collective::all_gather &&
              collective_of(CollectiveOp::broadcast) == Collective::broadcast &&
              collective_of(CollectiveOp::reduce) == Collective::reduce &&
              collective_of(CollectiveOp::all_to_all) == Collective::all_to_all);

/// True for the collectives whose buffers are cut into segments, if the plan allows it.
constexpr bool has_segments(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::broadcast ||
         collective == Collective::reduce;
}

/// How many segments a buffer is cut into, if its plan allows it.
int num_segments(std::int64_t bytes, int world_size);

/// log2 of `bytes`, rounded up. Plans are compared at powers of two, which ringrad-info prints.
constexpr int log_bytes_of(std::size_t bytes) {
  return bytes <= 1 ? 0 : static_cast<int>(std::bit_width(bytes - 1));
}

struct ProgramKey {
  Collective collective;
  int segments = 1;
  int root = 0;
  // What else a choice depends on.
  int log_bytes = 0;  ///< of the buffer
  DeviceType device = DeviceType::cpu;

  auto operator<=>(const ProgramKey&) const = default;
};

/// Serves all ranks of a group at once.
class ProgramCache {
 public:
  /// Without a planner, the cache chooses the plan.
  ProgramCache(int world_size, std::map<Collective, Planner> planners, SumOrder order)
      : world_size_(world_size), planners_(std::move(planners)), order_(order) {}

  /// True if the cache chooses the collective's plans.
  bool chooses(Collective collective) const { return !planners_.at(collective); }

  /// True if a plan depends on the links, and so on the key's last two fields.
  bool needs_links(Collective collective) const;

  /// Sets the cost of messages between tensors on `device`. Only the first call for a device has an
  /// effect.
  void set_links(DeviceType device, const CostModel& links);

  /// Compiled by the first rank to ask; the others wait for it. The result lives as long as the
  /// cache.
  ///
  /// REQUIRES: the links of key.device are set if the collective needs them
  /// Throws:   ValueError unless the planner makes a plan for this key of at most kMaxPlanChunks
  ///           chunks, and the plan is proved; or if no algorithm adds in the order that is wanted
  const PlanPrograms& get(const ProgramKey& key, Where where);

  /// A plan that is not the group's choice, compiled once as well. Throws: as get
  const PlanPrograms& compiled(const CollectivePlan& plan, Where where);

 private:
  // Buffers of different sizes often get the same plan.
  struct Compiled {
    CollectivePlan plan;
    PlanPrograms programs;
  };

  // What a collective's plans may come from.
  struct Candidates {
    std::vector<PlanCandidate> list;
    std::set<std::pair<std::string, int>> in_order;  // algorithms and segments that are proved
  };

  const PlanPrograms& find_or_compile(CollectivePlan plan, Where where);
  std::vector<PlanCandidate> likely_candidates(const ProgramKey& key) const;
  CollectivePlan make_plan(const ProgramKey& key, Where where);
  const PlanPrograms& choose(const ProgramKey& key, Where where);

  const int world_size_;
  const std::map<Collective, Planner> planners_;
  const SumOrder order_;
  std::mutex mutex_;  // guards what follows
  std::map<DeviceType, CostModel> links_;
  std::map<ProgramKey, Candidates> candidates_;  // by collective and root
  std::map<ProgramKey, const PlanPrograms*> programs_;
  std::deque<Compiled> compiled_;
};

/// The plans of a group's collectives, which ranks of one process may share.
///
/// Throws: as check_options; ValueError unless segments is in [0, kMaxPlanChunks / world_size]
std::shared_ptr<ProgramCache> make_programs(int world_size, const GroupOptions& options,
                                            Where where);

}  // namespace ringrad
