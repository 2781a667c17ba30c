#include "ringrad/parallel/comm/memory/program_cache.h"

#include <algorithm>
#include <stdexcept>

namespace ringrad {
namespace {

// A chunk should stay in a second-level cache (1 to 2 MiB) from one step to the next; smaller ones
// only add steps. With more than a few segments nothing more is gained.
constexpr std::int64_t kChunkBytes = 1 << 20;
constexpr std::int64_t kMaxSegments = 8;

}  // namespace

// Powers of two, so that few different plans are made.
int num_segments(std::int64_t bytes, int world_size) {
  const auto power = std::bit_floor(static_cast<std::uint64_t>(bytes / (kChunkBytes * world_size)));
  return static_cast<int>(std::clamp<std::int64_t>(power, 1, kMaxSegments));
}

bool ProgramCache::needs_links(Collective collective) const {
  return chooses(collective) && world_size_ > 1 && algorithm_names(collective).size() > 1;
}

void ProgramCache::set_links(DeviceType device, const CostModel& links) {
  const std::lock_guard lock(mutex_);
  links_.try_emplace(device, links);
}

const PlanPrograms& ProgramCache::get(const ProgramKey& key, Where where) {
  const std::lock_guard lock(mutex_);
  const auto found = programs_.find(key);
  if (found != programs_.end()) return *found->second;
  if (chooses(key.collective)) return *(programs_[key] = &choose(key, where));
  CollectivePlan plan = make_plan(key, where);
  RINGRAD_CHECK(
      plan.collective == key.collective && plan.world_size == world_size_ && plan.root == key.root,
      ValueError, where, name(key.collective), ": the plan must be for ", name(key.collective),
      ", ", world_size_, " ranks, root ", key.root, "; got ", name(plan.collective), ", ",
      plan.world_size, " ranks, root ", plan.root);
  return *(programs_[key] = &find_or_compile(std::move(plan), where));
}

const PlanPrograms& ProgramCache::compiled(const CollectivePlan& plan, Where where) {
  const std::lock_guard lock(mutex_);
  return find_or_compile(plan, where);
}

const PlanPrograms& ProgramCache::find_or_compile(CollectivePlan plan, Where where) {
  const auto same = std::find_if(compiled_.begin(), compiled_.end(),
                                 [&](const Compiled& known) { return known.plan == plan; });
  if (same != compiled_.end()) return same->programs;
  const bool is_exchange = plan.collective == Collective::all_to_all;
  RINGRAD_CHECK(is_exchange || plan.num_chunks <= kMaxPlanChunks, ValueError, where,
                name(plan.collective), ": a plan must have at most ", kMaxPlanChunks,
                " chunks; got ", plan.num_chunks, " for ", world_size_, " ranks");
  PlanPrograms programs = compile(plan, where);
  compiled_.push_back({std::move(plan), std::move(programs)});
  return compiled_.back().programs;
}

CollectivePlan ProgramCache::make_plan(const ProgramKey& key, Where where) {
  try {
    return planners_.at(key.collective)(
        key.collective, world_size_,
        {.segments = key.segments, .root = key.root, .ranks_per_host = world_size_});
  } catch (const std::invalid_argument& error) {
    throw ValueError(error.what(), where);
  }
}

// Algorithms that add in the group's order with few ranks.
std::vector<PlanCandidate> ProgramCache::likely_candidates(const ProgramKey& key) const {
  const int few = few_ranks(world_size_);
  std::vector<PlanCandidate> candidates;
  for (const std::string& algorithm : algorithm_names(key.collective))
    if (algorithm != "hierarchical" && algorithm != "leaders")  // all ranks are on one host
      candidates.push_back({algorithm, {.root = key.root * few / world_size_}});
  candidates = in_sum_order(std::move(candidates), key.collective, few, order_);
  for (PlanCandidate& candidate : candidates) candidate.options.root = key.root;
  return candidates;
}

// Segments keep chunks in caches, of which the model of links knows nothing: they are no part of
// the comparison.
const PlanPrograms& ProgramCache::choose(const ProgramKey& key, Where where) {
  const auto [entry, is_new] = candidates_.try_emplace({key.collective, /*segments=*/1, key.root});
  Candidates& candidates = entry->second;
  if (is_new) candidates.list = likely_candidates(key);
  const auto links = links_.find(key.device);
  const CostModel& model = links == links_.end() ? CostModel() : links->second;
  while (!candidates.list.empty()) {
    const std::string algorithm =
        fastest_plan(key.collective, world_size_, std::int64_t{1} << key.log_bytes, model,
                     candidates.list)
            .algorithm;
    const CollectivePlan plan = ringrad::make_plan(key.collective, algorithm, world_size_,
                                                   {.segments = key.segments, .root = key.root});
    const PlanPrograms& programs = find_or_compile(plan, where);  // which proves it
    const std::pair choice{algorithm, key.segments};
    if (candidates.in_order.contains(choice) || proved_plan_has_sum_order(plan, order_)) {
      candidates.in_order.insert(choice);
      return programs;
    }
    std::erase_if(candidates.list,
                  [&](const PlanCandidate& other) { return other.algorithm == algorithm; });
  }
  throw ValueError(concat(name(key.collective), ": an algorithm must add in ", name(order_),
                          " order; got none for ", world_size_, " ranks"),
                   where);
}

std::shared_ptr<ProgramCache> make_programs(int world_size, const GroupOptions& options,
                                            Where where) {
  check_options(world_size, options, where);
  const int most_segments = kMaxPlanChunks / world_size;
  RINGRAD_CHECK(options.segments >= 0 && options.segments <= most_segments, ValueError, where,
                "group: segments must be in [0, ", most_segments, "] for ", world_size,
                " ranks; got ", options.segments);
  if (options.links) {
    const auto check_cost = [&](const char* name, double cost) {
      RINGRAD_CHECK(cost >= 0, ValueError, where,
                    "group: the costs of links must not be negative; got ", name, ' ', cost);
    };
    check_cost("alpha", options.links->within_host.alpha_s);
    check_cost("beta", options.links->within_host.beta_s_per_byte);
    check_cost("gamma", options.links->gamma_s_per_byte);
  }
  auto programs = std::make_shared<ProgramCache>(world_size, planners_of(options), options.order);
  if (options.links)
    for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda})
      programs->set_links(device, *options.links);
  return programs;
}

}  // namespace ringrad
