#include "parallel/comm/program_cache.h"

#include <stdexcept>

namespace ringrad {

const PlanPrograms& ProgramCache::get(const ProgramKey& key, Where where) {
  const std::lock_guard lock(mutex_);
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  const CollectivePlan plan = make_plan(key, where);
  RINGRAD_CHECK(
      plan.collective == key.collective && plan.world_size == world_size_ && plan.root == key.root,
      ValueError, where, name(key.collective), ": the plan must be for ", name(key.collective),
      ", ", world_size_, " ranks, root ", key.root, "; got ", name(plan.collective), ", ",
      plan.world_size, " ranks, root ", plan.root);
  RINGRAD_CHECK(plan.num_chunks <= kMaxPlanChunks, ValueError, where, name(key.collective),
                ": a plan must have at most ", kMaxPlanChunks, " chunks; got ", plan.num_chunks,
                " for ", world_size_, " ranks");
  return programs_.emplace(key, compile(plan, where)).first->second;
}

CollectivePlan ProgramCache::make_plan(const ProgramKey& key, Where where) const {
  try {
    return planners_.at(key.collective)(key.collective, world_size_,
                                        {.segments = key.segments, .root = key.root});
  } catch (const std::invalid_argument& error) {
    throw ValueError(error.what(), where);
  }
}

}  // namespace ringrad
