// Options of a group that name the plans of one collective.

#pragma once

#include "ringrad/parallel/comm/group_options.h"

namespace ringrad::testing {

inline GroupOptions options_with(Collective collective, const Planner& planner) {
  GroupOptions options;
  switch (collective) {
    case Collective::all_reduce:
      options.all_reduce = planner;
      break;
    case Collective::reduce_scatter:
      options.reduce_scatter = planner;
      break;
    case Collective::all_gather:
      options.all_gather = planner;
      break;
    case Collective::broadcast:
      options.broadcast = planner;
      break;
    case Collective::reduce:
      options.reduce = planner;
      break;
    case Collective::all_to_all:
      options.all_to_all = planner;
      break;
  }
  return options;
}

/// Runs `plan`, whatever the caller's arguments.
inline GroupOptions options_with(const CollectivePlan& plan) {
  return options_with(plan.collective, [plan](int, const PlanOptions&) { return plan; });
}

}  // namespace ringrad::testing
