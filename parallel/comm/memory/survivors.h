// Survivors: how the ranks of a broken group agree on which of them continue.
//
//     rank 0   here ...... sees 0, 1, 3 here and 2 dead; writes {0, 1, 3}, decides
//     rank 1   ......here                      reads {0, 1, 3}
//     rank 2   (dead)
//     rank 3   ...here    sees the same, writes {0, 1, 3}, finds 0's decision: reads {0, 1, 3}
//
// Ranks may disagree on whether another rank has arrived. So each rank writes its view in its own
// place, and the first rank to make its place the decision decides for all. A rank that is not in
// the decision came too late. The deciding rank also makes the memory that the new group shares.
//
// An excluded rank that is inside a call, or has work queued on a GPU, could write to the
// survivors' memory later. So every survivor kills such a process, and waits until it is gone,
// before it uses the new group (RankGroup::shut_out). Any other excluded rank gets an error at its
// next call.

#pragma once

#include <atomic>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/group_options.h"
#include "ringrad/parallel/comm/memory/group_memory.h"

namespace ringrad {

struct Survivors {
  std::vector<int> ranks;     ///< of the broken group, ascending
  std::vector<int> left_out;  ///< others that neither left nor came; their state is unknown
  int decider = 0;            ///< one of `ranks`
  std::uintptr_t shared = 0;  ///< the new group's memory, by its distance from the decider's base
};

/// Lies in the memory that the ranks share. All zeros is its initial state.
class SurvivorPoll {
 public:
  /// Makes the memory that world_size ranks share, and returns its distance from the caller's base.
  using MakeShared = std::function<std::uintptr_t(int world_size)>;

  /// Returns when all ranks of the group that have not ended have called it, or the deadline has
  /// passed.
  ///
  /// Throws: CollectiveError if the others decided without this rank
  Survivors agree(int rank, int world_size, const GroupMemory& memory,
                  std::chrono::nanoseconds deadline, const RankNames& names,
                  const MakeShared& make_shared, Where where);

  /// Notes that this rank will not call agree().
  void leave(int rank) { votes_[rank].state.store(State::gone, std::memory_order_release); }

 private:
  enum class State : std::uint32_t { away, here, gone };
  using Ranks = std::bitset<kMaxRanks>;

  struct Vote {
    std::atomic<State> state;
    Ranks ranks;
    std::uintptr_t shared;
  };

  bool is_still_awaited(int rank, const GroupMemory& memory) const {
    return votes_[rank].state.load(std::memory_order_acquire) == State::away &&
           !memory.has_died(rank);
  }

  std::atomic<int> decider_plus_1_;  // 0: none yet
  Vote votes_[kMaxRanks];
};

}  // namespace ringrad
