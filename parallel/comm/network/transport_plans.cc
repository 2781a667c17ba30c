#include "ringrad/parallel/comm/network/transport_plans.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ringrad/parallel/comm/memory/program_cache.h"
#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/predict/fastest_plan.h"

namespace ringrad {
namespace {

// Below, one message of everything takes less time than two of parts.
constexpr std::size_t kSmallBytes = 8192;

// The first that adds in the group's order is taken.
std::vector<std::string> preferred(Collective collective, bool is_small) {
  switch (collective) {
    case Collective::all_reduce:
      return {is_small ? "one_shot" : "two_shot", "halving_doubling", "tree"};
    case Collective::reduce:
      return {is_small ? "direct" : "two_shot", "binomial"};
    case Collective::reduce_scatter:
      return {"direct", "halving"};
    case Collective::all_gather:
      return {"direct"};
    case Collective::broadcast:
      return {"binomial"};
    case Collective::all_to_all:
      break;
  }
  return {"pairwise"};
}

// Fowler, Noll and Vo's hash.
std::uint64_t number_of(const CollectivePlan& plan) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : concat(plan.algorithm, ' ', plan.num_chunks))
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return std::max<std::uint64_t>(hash, 1);
}

}  // namespace

std::string TransportPlans::algorithm_for(Collective collective, bool is_small, Where where) const {
  std::vector<PlanCandidate> candidates;
  for (const std::string& name : preferred(collective, is_small)) candidates.push_back({name, {}});
  if (world_size_ > 1)
    candidates =
        in_sum_order(std::move(candidates), collective, few_ranks(world_size_), options_.order);
  RINGRAD_CHECK(!candidates.empty(), ValueError, where, name(collective),
                ": an algorithm must add in ", name(options_.order), " order; got none for ",
                world_size_, " ranks");
  return candidates.front().algorithm;
}

const NumberedPlan& TransportPlans::get(Collective collective, std::size_t bytes, int root,
                                        Where where) {
  const Planner& planner = planners_.at(collective);
  const bool is_small = !planner && bytes <= kSmallBytes;
  PlanOptions options{.root = root, .ranks_per_host = ranks_per_host_, .only_rank = rank_};
  if (has_segments(collective))
    options.segments = options_.segments > 0
                           ? options_.segments
                           : num_segments(static_cast<std::int64_t>(bytes), world_size_);
  const Key key{collective, is_small, root, options.segments};
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  CollectivePlan plan =
      make(planner ? planner : Planner(algorithm_for(collective, is_small, where)), collective,
           options, where);
  const std::uint64_t number = number_of(plan);
  return plans_.emplace(key, NumberedPlan{std::move(plan), number}).first->second;
}

CollectivePlan TransportPlans::make(const Planner& planner, Collective collective,
                                    const PlanOptions& options, Where where) const {
  const auto plan_of = [&](int rank) {
    PlanOptions of_rank = options;
    of_rank.only_rank = rank;
    return planner(collective, world_size_, of_rank);
  };
  try {
    CollectivePlan plan = plan_of(rank_);
    RINGRAD_CHECK(plan.collective == collective && plan.world_size == world_size_ &&
                      plan.root == options.root,
                  ValueError, where, name(collective), ": the plan must be for ", name(collective),
                  ", ", world_size_, " ranks, root ", options.root, "; got ", name(plan.collective),
                  ", ", plan.world_size, " ranks, root ", plan.root);
    const bool is_whole = plan.only_rank == kAllRanks;  // a planner that knows no single ranks
    const auto wrong = is_whole ? plan_check(plan) : plan_check(plan_of);
    RINGRAD_CHECK(!wrong, ValueError, where, name(collective), ": the plan ", plan.algorithm,
                  " must be proved; got ", wrong->text);
    std::erase_if(plan.steps, [&](const Step& step) { return step.rank != rank_; });
    return plan;
  } catch (const std::invalid_argument& error) {
    throw ValueError(error.what(), where);
  }
}

}  // namespace ringrad
