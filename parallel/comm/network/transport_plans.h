// The plans of a group over a transport. A planner in the group's options makes the plan; without
// one, a table chooses among the algorithms that add in the group's order. Each rank makes only its
// own steps, and proves the plan for all ranks (check.h), once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

struct NumberedPlan {
  CollectivePlan plan;
  /// By which ranks tell plans apart, made of the algorithm's name and the number of chunks. Never
  /// 0, which stands for no plan.
  std::uint64_t number;
};

class TransportPlans {
 public:
  /// `ranks_per_host` is the number of ranks on each host that a hierarchical plan assumes.
  TransportPlans(int rank, int world_size, const GroupOptions& options, int ranks_per_host)
      : rank_(rank), world_size_(world_size), options_(options), ranks_per_host_(ranks_per_host) {}

  /// The plan for a buffer of this many bytes, with this rank's steps alone.
  ///
  /// Throws: ValueError unless the planner makes a plan for this, and the plan is proved; or if no
  ///         algorithm adds in the order that is wanted
  const NumberedPlan& get(Collective collective, std::size_t bytes, int root, Where where);

 private:
  using Key = std::tuple<Collective, bool, int, int>;  // whether it is small, root, segments

  std::string algorithm_for(Collective collective, bool is_small, Where where) const;
  CollectivePlan make(const Planner& planner, Collective collective, const PlanOptions& options,
                      Where where) const;

  const int rank_, world_size_;
  const GroupOptions options_;
  const std::map<Collective, Planner> planners_ = planners_of(options_);
  const int ranks_per_host_;
  std::map<Key, NumberedPlan> plans_;
};

}  // namespace ringrad
