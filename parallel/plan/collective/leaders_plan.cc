#include "ringrad/parallel/plan/collective/leaders_plan.h"

#include "ringrad/parallel/plan/collective/compose.h"
#include "ringrad/parallel/plan/collective/direct_plan.h"
#include "ringrad/parallel/plan/collective/require.h"

namespace ringrad {
namespace {

using Ranks = LevelCall::Ranks;

CollectivePlan plan_of(const LevelCall& call, WorldSize size) {
  if (call.collective == Collective::all_reduce) return two_shot_all_reduce(size);
  if (call.collective == Collective::reduce) return direct_reduce(size, call.root);
  return direct_broadcast(size, call.root);
}

bool calls(const LevelCall& call, int host, int roots_host) {
  return call.ranks == Ranks::every_host ||
         (call.ranks == Ranks::roots_host) == (host == roots_host);
}

}  // namespace

std::vector<LevelCall> calls_in_levels(Collective collective, int roots_host, int root) {
  const LevelCall reduce{Ranks::every_host, Collective::reduce};
  switch (collective) {
    case Collective::broadcast:
      return {{Ranks::roots_host, Collective::broadcast, root},
              {Ranks::leaders, Collective::broadcast, roots_host},
              {Ranks::other_hosts, Collective::broadcast}};
    case Collective::reduce:
      if (root == 0) return {reduce, {Ranks::leaders, Collective::reduce, roots_host}};
      return {reduce,
              {Ranks::leaders, Collective::reduce, roots_host},
              {Ranks::roots_host, Collective::broadcast}};
    default:
      return {reduce,
              {Ranks::leaders, Collective::all_reduce},
              {Ranks::every_host, Collective::broadcast}};
  }
}

CollectivePlan leaders_plan(Collective collective, int hosts, int ranks_per_host, int root,
                            int only_rank) {
  require(hosts >= 1 && ranks_per_host >= 1, "leaders ", name(collective),
          ": hosts and ranks per host must be positive; got ", hosts, " and ", ranks_per_host);
  const int m = ranks_per_host, roots_host = root / m;
  const WorldSize all{hosts * m, only_rank};
  const int chunks = collective == Collective::reduce_scatter ? hosts * m : hosts;
  CollectivePlan plan = has_root(collective) ? empty_rooted_plan(collective, "leaders", all, root)
                                             : empty_plan(collective, "leaders", all, chunks);
  const bool is_whole = only_rank == kAllRanks;
  int slot = 0;
  for (const LevelCall& call : calls_in_levels(collective, roots_host, root % m)) {
    const bool is_inside = call.ranks != Ranks::leaders;
    const int size = is_inside ? m : hosts, own = is_inside ? only_rank % m : only_rank / m;
    const CollectivePlan part = plan_of(call, {size, is_whole ? kAllRanks : own});
    const auto on = [&](int first, int stride) {
      std::vector<int> ranks = first_integers(size);
      for (int& rank : ranks) rank = first + rank * stride;
      embed(plan, part,
            {.ranks = std::move(ranks),
             .chunks_per_chunk = plan.num_chunks / part.num_chunks,
             .first_slot = slot});
    };
    if (!is_inside) on(0, m);
    for (int h = 0; is_inside && h < hosts; ++h)
      if (calls(call, h, roots_host)) on(h * m, 1);
    slot += num_steps(part);
  }
  return plan;
}

}  // namespace ringrad
