// ProgramCache: the plans of a group's collectives, each made, proved and compiled when it is first
// asked for.

#pragma once

#include <compare>
#include <map>
#include <mutex>

#include "core/error.h"
#include "parallel/comm/plan_program.h"
#include "parallel/plan/algorithms.h"

namespace ringrad {

/// The most chunks of one plan: a proof takes time and memory that grow with ranks times chunks.
inline constexpr int kMaxPlanChunks = 4096;

struct ProgramKey {
  Collective collective;
  int segments = 1;
  int root = 0;

  auto operator<=>(const ProgramKey&) const = default;
};

/// Serves all ranks of a group at once.
class ProgramCache {
 public:
  /// REQUIRES: there is a planner for every collective that will be asked for
  ProgramCache(int world_size, std::map<Collective, Planner> planners)
      : world_size_(world_size), planners_(std::move(planners)) {}

  /// Compiled by the first rank to ask; the others wait for it. The result lives as long as the
  /// cache.
  ///
  /// Throws: ValueError unless the planner makes a plan for this key of at most kMaxPlanChunks
  ///         chunks, and the plan is proved
  const PlanPrograms& get(const ProgramKey& key, Where where);

 private:
  CollectivePlan make_plan(const ProgramKey& key, Where where) const;

  const int world_size_;
  const std::map<Collective, Planner> planners_;
  std::mutex mutex_;
  std::map<ProgramKey, PlanPrograms> programs_;
};

}  // namespace ringrad
