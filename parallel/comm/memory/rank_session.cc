#include "ringrad/parallel/comm/memory/rank_session.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "ringrad/parallel/comm/memory/program_words.h"

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

const PlanPrograms& RankSession::programs(const ProgramKey& key, Operation& operation) {
  const PlanPrograms*& known = known_programs_[key];
  if (known != nullptr) return *known;
  const bool is_common = world_size_ > 1 && programs_->chooses(key.collective);
  known = is_common ? &programs_of_root(key, operation) : &programs_->get(key, operation.where);
  return *known;
}

const PlanPrograms& RankSession::programs_of_root(const ProgramKey& key, Operation& operation) {
  struct Word {
    std::uint64_t fingerprint;
    std::uintptr_t place;  // of the words in rank 0's memory, if the others have not read them
  } word{};
  const PlanPrograms* own = nullptr;
  std::shared_ptr<std::byte> memory;
  if (rank_ == 0) {
    own = &programs_->get(key, operation.where);
    word.fingerprint = own->fingerprint;
    if (shown_programs_.insert({key.collective, word.fingerprint}).second) {
      const std::vector<std::uint32_t> words = to_words(*own);
      const std::size_t bytes = words.size() * sizeof words[0];
      memory = memory_->allocate(bytes, operation.where);
      std::memcpy(memory.get(), words.data(), bytes);
      word.place = group_.distance(rank_, memory.get());
    }
  }
  const RankGroup::Inside inside(group_, operation);
  word = exchange_eager(operation, word)[0];
  if (rank_ != 0) {
    const auto [found, is_new] = read_programs_.try_emplace({key.collective, word.fingerprint});
    if (is_new)
      found->second =
          from_words(reinterpret_cast<const std::uint32_t*>(group_.address(0, word.place)), rank_);
    own = &found->second;
  }
  exchange(operation, 0);  // the words may go
  operation.deadline.reset();
  return *own;
}

int RankSession::num_segments(std::int64_t count, DType dtype) const {
  if (options_.segments > 0) return options_.segments;
  return ringrad::num_segments(count * static_cast<std::int64_t>(size_bytes(dtype)), world_size_);
}

}  // namespace ringrad
