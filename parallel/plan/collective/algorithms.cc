#include "ringrad/parallel/plan/collective/algorithms.h"

#include <stdexcept>
#include <utility>

#include "ringrad/parallel/plan/collective/chain_plan.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/halving_plan.h"
#include "ringrad/parallel/plan/collective/hierarchical_plan.h"
#include "ringrad/parallel/plan/collective/leaders_plan.h"
#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"
#include "ringrad/parallel/plan/collective/tree_plan.h"

namespace ringrad {
namespace {

using Make = CollectivePlan(Collective collective, int world_size, const PlanOptions& options);

struct Algorithm {
  Collective collective;
  const char* name;
  Make* make;
};

// Adapts an algorithm's arguments to PlanOptions.
template <auto kFunction>
CollectivePlan made(Collective collective, int n, const PlanOptions& options) {
  return call_planner(kFunction, collective, WorldSize(n, options.only_rank), options);
}

int num_hosts(const char* algorithm, Collective collective, int n, int ranks_per_host) {
  require(ranks_per_host >= 1 && n % ranks_per_host == 0, algorithm, ' ', name(collective),
          ": ranks per host must divide the world size; got ", ranks_per_host, " and ", n);
  return n / ranks_per_host;
}

CollectivePlan hierarchical(Collective collective, int n, const PlanOptions& options) {
  return hierarchical_all_reduce(num_hosts("hierarchical", collective, n, options.ranks_per_host),
                                 options.ranks_per_host, options.only_rank);
}

CollectivePlan leaders(Collective collective, int n, const PlanOptions& options) {
  return leaders_plan(collective, num_hosts("leaders", collective, n, options.ranks_per_host),
                      options.ranks_per_host, has_root(collective) ? options.root : 0,
                      options.only_rank);
}

constexpr Algorithm kAlgorithms[] = {
    {Collective::all_reduce, "two_shot", made<two_shot_all_reduce>},
    {Collective::all_reduce, "one_shot", made<one_shot_all_reduce>},
    {Collective::all_reduce, "ring", made<ring_all_reduce>},
    {Collective::all_reduce, "bidirectional_ring", made<bidirectional_ring_all_reduce>},
    {Collective::all_reduce, "halving_doubling", made<halving_doubling_all_reduce>},
    {Collective::all_reduce, "tree", made<tree_all_reduce>},
    {Collective::all_reduce, "chain", made<chain_all_reduce>},
    {Collective::all_reduce, "hierarchical", hierarchical},
    {Collective::all_reduce, "leaders", leaders},
    {Collective::reduce_scatter, "direct", made<direct_reduce_scatter>},
    {Collective::reduce_scatter, "ring", made<ring_reduce_scatter>},
    {Collective::reduce_scatter, "halving", made<halving_reduce_scatter>},
    {Collective::reduce_scatter, "leaders", leaders},
    {Collective::all_gather, "direct", made<direct_all_gather>},
    {Collective::all_gather, "ring", made<ring_all_gather>},
    {Collective::all_gather, "doubling", made<doubling_all_gather>},
    {Collective::broadcast, "direct", made<direct_broadcast>},
    {Collective::broadcast, "binomial", made<binomial_broadcast>},
    {Collective::broadcast, "chain", made<chain_broadcast>},
    {Collective::broadcast, "leaders", leaders},
    {Collective::reduce, "direct", made<direct_reduce>},
    {Collective::reduce, "two_shot", made<two_shot_reduce>},
    {Collective::reduce, "binomial", made<binomial_reduce>},
    {Collective::reduce, "chain", made<chain_reduce>},
    {Collective::reduce, "leaders", leaders},
    {Collective::all_to_all, "pairwise", made<pairwise_all_to_all>},
};

}  // namespace

CollectivePlan make_plan(Collective collective, std::string_view algorithm, int world_size,
                         const PlanOptions& options) {
  for (const Algorithm& known : kAlgorithms)
    if (known.collective == collective && known.name == algorithm)
      return known.make(collective, world_size, options);
  std::string names;
  for (const std::string& known : algorithm_names(collective))
    names += (names.empty() ? "" : ", ") + known;
  throw std::invalid_argument(text_of(name(collective), ": the algorithm must be one of ", names,
                                      "; got '", algorithm, "'"));
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
