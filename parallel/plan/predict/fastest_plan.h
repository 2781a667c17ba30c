// Choosing an algorithm by predicted time instead of by a table of thresholds.
//
//     fastest_plan(Collective::all_reduce, 8, bytes, model,
//                  plan_candidates(Collective::all_reduce));
//
// The well-known thresholds follow from it: with links of B bytes per second into a switch and
// alpha seconds of latency, two-shot overtakes one-shot at alpha B n / ((n - 1) (n - 2)) bytes.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/collective/algorithms.h"
#include "ringrad/parallel/plan/collective/sum_order.h"
#include "ringrad/parallel/plan/predict/cost.h"

namespace ringrad {

struct PlanCandidate {
  std::string algorithm;
  PlanOptions options;
};

/// Every algorithm. Those that can be cut into segments appear with 1, 2, 4, ... up to
/// `max_segments`; other options are as given.
std::vector<PlanCandidate> plan_candidates(Collective collective, const PlanOptions& options = {},
                                           int max_segments = 32);

/// A number of ranks, at most `world_size`, whose plans show which algorithms add in an order.
/// Which ones do depends on little more than whether the number of ranks is a power of two.
int few_ranks(int world_size);

/// The candidates whose plans add in the order `order`.
///
/// Throws: as make_plan
std::vector<PlanCandidate> in_sum_order(std::vector<PlanCandidate> candidates,
                                        Collective collective, int world_size, SumOrder order);

/// The plan with the least predicted time. The first wins among equals, so all ranks choose alike.
///
/// Throws: std::invalid_argument if there is no candidate; as make_plan and plan_timeline
CollectivePlan fastest_plan(Collective collective, int world_size, std::int64_t bytes,
                            const CostModel& model, std::span<const PlanCandidate> candidates);

}  // namespace ringrad
