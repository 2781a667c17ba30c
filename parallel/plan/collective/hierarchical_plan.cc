#include "ringrad/parallel/plan/collective/hierarchical_plan.h"

#include <vector>

#include "ringrad/parallel/plan/collective/compose.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/require.h"
#include "ringrad/parallel/plan/collective/ring_plan.h"

namespace ringrad {
namespace {

// first, first + stride, ..., `count` of them.
std::vector<int> ranks_from(int first, int stride, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

}  // namespace

CollectivePlan hierarchical_all_reduce(int hosts, int ranks_per_host, int only_rank) {
  require(hosts >= 1 && ranks_per_host >= 1,
          "hierarchical all_reduce: hosts and ranks per host must be positive; got ", hosts,
          " and ", ranks_per_host);
  const int n = hosts * ranks_per_host;
  CollectivePlan plan = empty_plan(Collective::all_reduce, "hierarchical", {n, only_rank}, n);
  const bool is_whole = only_rank == kAllRanks;
  const WorldSize inner{ranks_per_host, is_whole ? kAllRanks : only_rank % ranks_per_host};
  const WorldSize outer{hosts, is_whole ? kAllRanks : only_rank / ranks_per_host};

  const auto inside_hosts = [&](const CollectivePlan& part) {
    const int slot = num_steps(plan);
    for (int h = 0; h < hosts; ++h)
      embed(plan, part,
            {.ranks = ranks_from(h * ranks_per_host, 1, ranks_per_host),
             .chunks_per_chunk = hosts,
             .first_slot = slot});
  };
  const auto between_hosts = [&](const CollectivePlan& part) {
    const int slot = num_steps(plan);
    for (int l = 0; l < ranks_per_host; ++l)
      embed(plan, part,
            {.ranks = ranks_from(l, ranks_per_host, hosts),
             .first_chunk = l * hosts,
             .first_slot = slot});
  };
  inside_hosts(direct_reduce_scatter(inner));
  between_hosts(ring_all_reduce(outer));
  inside_hosts(direct_all_gather(inner));
  return plan;
}

}  // namespace ringrad
