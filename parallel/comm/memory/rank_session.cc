#include "ringrad/parallel/comm/memory/rank_session.h"

#include <utility>
#include <vector>

namespace ringrad {

RankSession::RankSession(int rank, int world_size, std::shared_ptr<GroupMemory> memory,
                         std::shared_ptr<ProgramCache> programs, const GroupOptions& options)
    : rank_(rank),
      world_size_(world_size),
      options_(options),
      memory_(std::move(memory)),
      group_(rank, world_size, memory_, options_),
      programs_(std::move(programs)),
      base_(options.first_count) {}

Operation RankSession::begin(const CollectiveCall& call, Where where) {
  Operation operation{call, rank_, sequence_ + 1, where, {}, &options_.rank_names};
  group_.check_whole(operation);
  return operation;
}

// All ranks must have made the same call before any rank's memory is touched. What a rank sends
// before it receives anything is its input, so it is published together with the entry.
void RankSession::enter(Operation& operation, const PlaceNames& places, std::uint64_t entered,
                        int leading) {
  sequence_ = operation.sequence;
  group_.enter(operation.call, places, entered + leading);
  bool equal = true;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    group_.wait(operation, peer, entered, entered);
    equal = equal && group_.call_of(peer) == operation.call;
  }
  if (equal) return;
  std::vector<CollectiveCall> calls;
  for (int r = 0; r < world_size_; ++r) calls.push_back(group_.call_of(r));
  group_.fail_and_throw(operation, concat(operation, ": all ranks must make the same call; got ",
                                          list_calls(calls, options_.rank_names)));
}

const PlanPrograms& RankSession::programs(const ProgramKey& key, Where where) {
  const PlanPrograms*& known = known_programs_[key];
  if (known == nullptr) known = &programs_->get(key, where);
  return *known;
}

int RankSession::num_segments(std::int64_t count, DType dtype) const {
  if (options_.segments > 0) return options_.segments;
  return ringrad::num_segments(count * static_cast<std::int64_t>(size_bytes(dtype)), world_size_);
}

}  // namespace ringrad
