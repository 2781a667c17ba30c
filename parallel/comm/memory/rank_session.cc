#include "ringrad/parallel/comm/memory/rank_session.h"

#include <algorithm>
#include <cstddef>

#include "ringrad/parallel/comm/common/culprit_report.h"
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
  const bool shares_addresses = memory_->is_one_process();
  PlaceNames all = places;
  if (shares_addresses) {
    all.output = reinterpret_cast<std::uintptr_t>(operation.output);
    all.input = reinterpret_cast<std::uintptr_t>(operation.input);
  }
  group_.enter(operation.call, all, entered + leading);
  bool equal = true;
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    group_.wait(operation, peer, entered, entered);
    equal = equal && group_.call_of(peer) == operation.call;
  }
  if (equal) return shares_addresses ? check_memory(operation) : void();
  std::vector<CollectiveCall> calls;
  for (int r = 0; r < world_size_; ++r) calls.push_back(group_.call_of(r));
  group_.fail_and_throw(operation, odd_one_out(calls, world_size_),
                        concat(operation, ": all ranks must make the same call; got ",
                               list_calls(calls, options_.rank_names)));
}

// No rank may write what another one reads or writes. As the calls are equal, so are the sizes.
void RankSession::check_memory(const Operation& operation) {
  const CollectiveCall& call = operation.call;
  const std::size_t whole = static_cast<std::size_t>(call.count) * size_bytes(call.dtype);
  const std::size_t part = whole / static_cast<std::size_t>(world_size_);
  const std::size_t written = call.op == CollectiveOp::reduce_scatter ? part : whole;
  const std::size_t read = call.op == CollectiveOp::all_gather ? part : whole;
  const auto overlap = [](std::uintptr_t a, std::size_t a_bytes, std::uintptr_t b,
                          std::size_t b_bytes) {
    return a != 0 && b != 0 && a < b + b_bytes && b < a + a_bytes;
  };
  const PlaceNames& own = group_.places_of(rank_);
  for (int peer = 0; peer < world_size_; ++peer) {
    if (peer == rank_) continue;
    const PlaceNames& other = group_.places_of(peer);
    if (!overlap(own.output, written, other.output, written) &&
        !overlap(own.output, written, other.input, read) &&
        !overlap(own.input, read, other.output, written))
      continue;
    const int both[] = {std::min(rank_, peer), std::max(rank_, peer)};
    group_.fail_and_throw(operation, kNobody,
                          concat(operation,
                                 ": each rank must have tensors of its own; got the same "
                                 "memory on ",
                                 options_.rank_names.list(both)));
  }
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
