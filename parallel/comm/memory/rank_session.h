// RankSession: takes one rank through the collectives of its group, on CPUs and GPUs. It numbers
// the calls, checks that all ranks make the same one, tracks their progress, and holds their plans.

#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/memory/group_memory.h"
#include "ringrad/parallel/comm/memory/program_cache.h"
#include "ringrad/parallel/comm/memory/rank_group.h"

namespace ringrad {

class RankSession {
 public:
  RankSession(int rank, int world_size, std::shared_ptr<GroupMemory> memory,
              std::shared_ptr<ProgramCache> programs, const GroupOptions& options);

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  const GroupOptions& options() const { return options_; }
  RankGroup& group() { return group_; }
  const std::shared_ptr<GroupMemory>& memory() const { return memory_; }

  /// The next collective of this rank. Throws: CollectiveError if the group is broken
  Operation begin(const CollectiveCall& call, Where where);

  /// The progress that a rank publishes when it enters a collective of at most `max_length` steps.
  /// All ranks must reserve the same lengths in the same order.
  std::uint64_t reserve(std::uint64_t max_length) {
    const std::uint64_t entered = base_ + 1;
    base_ = entered + max_length;
    return entered;
  }

  /// Enters a collective, having done `leading` of its steps, and waits for the others to enter it.
  ///
  /// Throws: CollectiveError, and breaks the group, unless all ranks make the same call and, among
  ///         threads, each with tensors of its own
  void enter(Operation& operation, const PlaceNames& places, std::uint64_t entered, int leading);

  /// Enters an exchange before the collective that `operation` begins. Afterwards, each rank can
  /// read the data at the `place` that another rank has passed.
  void exchange(Operation& operation, std::uintptr_t place) {
    enter(operation, {.buffer = place}, reserve(0), 0);
    --sequence_;
  }

  /// The least progress that a rank publishes when it enters the collective after this rank's
  /// latest.
  std::uint64_t next_entry() const { return base_ + 1; }

  /// Counts an `operation` that needs only the exchange from the group.
  void count(const Operation& operation) { sequence_ = operation.sequence; }

  /// Exchanges a word per rank before the collective that `operation` begins; in rank order.
  ///
  /// Throws: as enter
  template <class Word>
  std::vector<Word> exchange_eager(Operation& operation, const Word& own) {
    static_assert(std::is_trivially_copyable_v<Word> && sizeof(Word) <= RankGroup::kEagerBytes);
    std::memcpy(group_.next_eager(), &own, sizeof own);
    exchange(operation, 0);
    std::vector<Word> words(static_cast<std::size_t>(world_size_));
    for (int r = 0; r < world_size_; ++r)
      std::memcpy(&words[static_cast<std::size_t>(r)], group_.eager_of(r), sizeof own);
    return words;
  }

  /// True if the choice of plans depends on measured links; see ProgramCache.
  bool needs_links(Collective collective) const { return programs_->needs_links(collective); }
  std::optional<CostModel> links(DeviceType device) const {
    if (options_.links) return options_.links;
    const auto found = known_links_.find(device);
    return found == known_links_.end() ? std::nullopt : std::optional(found->second);
  }
  void set_links(DeviceType device, const CostModel& links) {
    known_links_.insert_or_assign(device, links);
    programs_->set_links(device, links);
  }

  /// The proved plan of a collective. A plan that the group chooses is chosen, proved and compiled
  /// by rank 0 alone, the first time that it is asked for; the other ranks read their programs in
  /// its memory. A planner's plan is proved by each rank that does not share its cache.
  ///
  /// REQUIRES: all ranks call it in the same operation
  /// Throws:   as ProgramCache::get; CollectiveError
  const PlanPrograms& programs(const ProgramKey& key, Operation& operation);

  const PlanPrograms& compiled(const CollectivePlan& plan, Where where) {
    return programs_->compiled(plan, where);
  }

  /// How many segments a buffer is cut into.
  int num_segments(std::int64_t count, DType dtype) const;

 private:
  void check_memory(const Operation& operation);
  const PlanPrograms& programs_of_root(const ProgramKey& key, Operation& operation);

  const int rank_, world_size_;
  const GroupOptions options_;
  const std::shared_ptr<GroupMemory> memory_;
  RankGroup group_;
  const std::shared_ptr<ProgramCache> programs_;
  std::map<ProgramKey, const PlanPrograms*> known_programs_;
  using PlanName = std::pair<Collective, std::uint64_t>;  // with the fingerprint
  std::map<PlanName, PlanPrograms> read_programs_;        // in rank 0's memory
  std::set<PlanName> shown_programs_;                     // by rank 0
  std::map<DeviceType, CostModel> known_links_;
  std::uint64_t sequence_ = 0;  // of the latest collective that was entered
  std::uint64_t base_;          // progress before the next one, equal on all ranks
};

}  // namespace ringrad
