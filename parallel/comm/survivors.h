// Survivors: how the ranks of a broken group agree on who goes on.
//
//     rank 0   here ...... sees 0, 1, 3 here and 2 dead; writes {0, 1, 3}, decides
//     rank 1   ......here                      reads {0, 1, 3}
//     rank 2   (dead)
//     rank 3   ...here    sees the same, writes {0, 1, 3}, finds that 0 has decided: reads {0, 1, 3}
//
// Ranks may see different things, one that a rank has come and another that it has not. So each writes what it
// saw in a place of its own, and the first to make its place the decision decides for all. A rank that is not
// in it came too late. The one that decides also makes the memory that the new group will share.
//
// A rank that is left out inside a call, or with work queued on a GPU, could write to the survivors' memory later. So
// every survivor kills such a process, and waits until it is gone, before it uses the new group
// (RankGroup::shut_out). Any other rank that is left out gets an error at its next call.

#pragma once

#include <atomic>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/error.h"
#include "parallel/comm/group_memory.h"
#include "parallel/comm/group_options.h"

namespace ringrad {

struct Survivors {
  std::vector<int> ranks;     ///< of the broken group, ascending
  std::vector<int> left_out;  ///< others that neither left nor came: what they are at is not known
  int decider = 0;            ///< one of them
  std::uintptr_t shared = 0;  ///< the new group's memory, by its distance from the decider's base
};

/// Lies in the memory that the ranks share. All zeros, it is ready for use.
class SurvivorPoll {
 public:
  /// Makes the memory that so many ranks share, and returns its distance from the caller's base.
  using MakeShared = std::function<std::uintptr_t(int world_size)>;

  /// Returns when all ranks of the group that have not ended have called it, or the deadline has passed.
  ///
  /// Throws: CollectiveError if the others decided without this rank
  Survivors agree(int rank, int world_size, const GroupMemory& memory,
                  std::chrono::nanoseconds deadline, const RankNames& names,
                  const MakeShared& make_shared, Where where);

  /// This rank will not call it.
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
