// All collectives, and all plans of a world size, for tests that go through them.

#pragma once

#include <functional>

#include "ringrad/parallel/plan/collective/algorithms.h"

namespace ringrad {

inline constexpr auto& kAllCollectives = kCollectives;

/// The largest world size for which plans are proved. Sanitizers, twenty times slower, see the same
/// code with fewer ranks.
#ifdef RINGRAD_SANITIZE
inline constexpr int kMaxProvedRanks = 20;
#else
inline constexpr int kMaxProvedRanks = 64;
#endif

/// Every algorithm of a collective with every root, every number of ranks per host, and some
/// numbers of segments. Equal plans in a row appear once.
inline void for_every_plan(Collective collective, int world_size,
                           const std::function<void(const CollectivePlan&)>& body) {
  const bool is_rooted = collective == Collective::broadcast || collective == Collective::reduce;
  for (const std::string& algorithm : algorithm_names(collective)) {
    CollectivePlan last;
    const auto with = [&](const PlanOptions& options) {
      CollectivePlan plan = make_plan(collective, algorithm, world_size, options);
      if (plan == last) return;
      body(plan);
      last = std::move(plan);
    };
    for (int segments : {1, 2, 3, 5})
      for (int root = 0; root < (is_rooted ? world_size : 1); ++root)
        with({.segments = segments, .root = root});
    for (int root = 0; root < (is_rooted ? world_size : 1); ++root)
      for (int m = 1; m <= world_size; ++m)
        if (world_size % m == 0) with({.root = root, .ranks_per_host = m});
  }
}

}  // namespace ringrad
