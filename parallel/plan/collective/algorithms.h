// All algorithms by name, so that a program's options, a benchmark or a test can iterate over them.
//
//     make_plan(Collective::all_reduce, "chain", 8, {.segments = 16});
//     for (const std::string& name : algorithm_names(Collective::broadcast)) ...
//
// Each algorithm's header says what it is good for: ring_plan.h, direct_plan.h, halving_plan.h,
// tree_plan.h, chain_plan.h, hierarchical_plan.h, leaders_plan.h.

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// An algorithm's parameters besides the world size. Each algorithm uses those that apply to it.
struct PlanOptions {
  int segments = 1;
  int root = 0;
  int ranks_per_host = 1;
  int only_rank = kAllRanks;  ///< the plan holds only this rank's steps
};

/// Throws: std::invalid_argument for an unknown name, listing the known ones; also what the
///         algorithm throws
CollectivePlan make_plan(Collective collective, std::string_view algorithm, int world_size,
                         const PlanOptions& options = {});

/// The names that make_plan knows for a collective.
std::vector<std::string> algorithm_names(Collective collective);

/// A function that makes plans from a world size, and what Planner says.
template <class Function>
concept MakesPlans =
    std::is_invocable_v<Function, int, PlanOptions> || std::is_invocable_v<Function, int> ||
    std::is_invocable_v<Function, int, int> || std::is_invocable_v<Function, int, int, int>;

/// Makes the plans of a collective: by an algorithm's name, or by a function.
///
///     Planner p = "chain";
///     Planner p = chain_all_reduce;                          // any function of the headers above
///     Planner p = [](int world_size, const PlanOptions& options) { return my_plan(world_size); };
///
/// The function's integers after the world size are the root (only for collectives that have one),
/// and then the number of segments.
class Planner {
 public:
  Planner() = default;
  Planner(std::nullptr_t) {}
  Planner(const char* algorithm) : Planner(std::string(algorithm)) {}
  Planner(std::string algorithm);

  template <MakesPlans Function>
  Planner(Function function);

  /// False for a planner made by default or from nullptr, which makes no plans.
  explicit operator bool() const { return make_ != nullptr; }

  /// REQUIRES: *this makes plans
  /// Throws:   what make_plan or the function throws
  CollectivePlan operator()(Collective collective, int world_size,
                            const PlanOptions& options) const {
    return make_(collective, world_size, options);
  }

 private:
  std::function<CollectivePlan(Collective, int, const PlanOptions&)> make_;
};

// Implementation details follow.

/// What the function makes; `ranks` is an int or a WorldSize.
template <class Function, class Ranks>
CollectivePlan call_planner(const Function& function, Collective collective, Ranks ranks,
                            const PlanOptions& options) {
  if constexpr (std::is_invocable_v<Function, int, PlanOptions>)
    return function(ranks, options);
  else if constexpr (std::is_invocable_v<Function, int, int, int>)
    return function(ranks, options.root, options.segments);
  else if constexpr (std::is_invocable_v<Function, int, int>)
    return function(ranks, has_root(collective) ? options.root : options.segments);
  else
    return function(ranks);
}

template <MakesPlans Function>
Planner::Planner(Function function)
    : make_([function](Collective collective, int n, const PlanOptions& options) {
        return call_planner(function, collective, n, options);
      }) {}

}  // namespace ringrad
