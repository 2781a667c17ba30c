#include "ringrad/parallel/plan/collective/algorithms.h"

#include <stdexcept>
#include <utility>

#include "ringrad/parallel/plan/collective/chain_plan.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/halving_plan.h"
#include "ringrad/parallel/plan/collective/hierarchical_plan.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"
#include "ringrad/parallel/plan/collective/tree_plan.h"

namespace ringrad {
namespace {

using Make = CollectivePlan(int world_size, const PlanOptions& options);

struct Algorithm {
  Collective collective;
  const char* name;
  Make* make;
};

// Adapts the algorithms' arguments to PlanOptions.
template <CollectivePlan (*planner)(WorldSize)>
CollectivePlan plain(int n, const PlanOptions& options) {
  return planner({n, options.only_rank});
}
template <CollectivePlan (*planner)(WorldSize, int)>
CollectivePlan segmented(int n, const PlanOptions& options) {
  return planner({n, options.only_rank}, options.segments);
}
template <CollectivePlan (*planner)(WorldSize, int)>
CollectivePlan rooted(int n, const PlanOptions& options) {
  return planner({n, options.only_rank}, options.root);
}
template <CollectivePlan (*planner)(WorldSize, int, int)>
CollectivePlan rooted_segmented(int n, const PlanOptions& options) {
  return planner({n, options.only_rank}, options.root, options.segments);
}

CollectivePlan hierarchical(int n, const PlanOptions& options) {
  if (options.ranks_per_host < 1 || n % options.ranks_per_host != 0)
    throw std::invalid_argument(
        "hierarchical all_reduce: ranks per host must divide the world size; got " +
        std::to_string(options.ranks_per_host) + " and " + std::to_string(n));
  return hierarchical_all_reduce(n / options.ranks_per_host, options.ranks_per_host,
                                 options.only_rank);
}

constexpr Algorithm kAlgorithms[] = {
    {Collective::all_reduce, "two_shot", segmented<two_shot_all_reduce>},
    {Collective::all_reduce, "one_shot", plain<one_shot_all_reduce>},
    {Collective::all_reduce, "ring", segmented<ring_all_reduce>},
    {Collective::all_reduce, "bidirectional_ring", plain<bidirectional_ring_all_reduce>},
    {Collective::all_reduce, "halving_doubling", plain<halving_doubling_all_reduce>},
    {Collective::all_reduce, "tree", segmented<tree_all_reduce>},
    {Collective::all_reduce, "chain", segmented<chain_all_reduce>},
    {Collective::all_reduce, "hierarchical", hierarchical},
    {Collective::reduce_scatter, "direct", plain<direct_reduce_scatter>},
    {Collective::reduce_scatter, "ring", plain<ring_reduce_scatter>},
    {Collective::reduce_scatter, "halving", plain<halving_reduce_scatter>},
    {Collective::all_gather, "direct", plain<direct_all_gather>},
    {Collective::all_gather, "ring", plain<ring_all_gather>},
    {Collective::all_gather, "doubling", plain<doubling_all_gather>},
    {Collective::broadcast, "direct", rooted<direct_broadcast>},
    {Collective::broadcast, "binomial", rooted<binomial_broadcast>},
    {Collective::broadcast, "chain", rooted_segmented<chain_broadcast>},
    {Collective::reduce, "direct", rooted<direct_reduce>},
    {Collective::reduce, "two_shot", rooted<two_shot_reduce>},
    {Collective::reduce, "binomial", rooted<binomial_reduce>},
    {Collective::reduce, "chain", rooted_segmented<chain_reduce>},
    {Collective::all_to_all, "pairwise", plain<pairwise_all_to_all>},
};

}  // namespace

CollectivePlan make_plan(Collective collective, std::string_view algorithm, int world_size,
                         const PlanOptions& options) {
  for (const Algorithm& known : kAlgorithms)
    if (known.collective == collective && known.name == algorithm)
      return known.make(world_size, options);
  std::string names;
  for (const std::string& known : algorithm_names(collective))
    names += (names.empty() ? "" : ", ") + known;
  throw std::invalid_argument(std::string(name(collective)) + ": the algorithm must be one of " +
                              names + "; got '" + std::string(algorithm) + "'");
}

Planner::Planner(std::string algorithm)
    : make_([algorithm = std::move(algorithm)](Collective collective, int n,
                                               const PlanOptions& options) {
        return make_plan(collective, algorithm, n, options);
      }) {}

std::vector<std::string> algorithm_names(Collective collective) {
  std::vector<std::string> names;
  for (const Algorithm& known : kAlgorithms)
    if (known.collective == collective) names.push_back(known.name);
  return names;
}

}  // namespace ringrad
