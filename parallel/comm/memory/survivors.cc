#include "ringrad/parallel/comm/memory/survivors.h"

#include <thread>

namespace ringrad {

Survivors SurvivorPoll::agree(int rank, int world_size, const GroupMemory& memory,
                              std::chrono::nanoseconds deadline, const RankNames& names,
                              const MakeShared& make_shared, Where where) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Vote& own = votes_[rank];
  own.state.store(State::here, std::memory_order_release);

  const auto has_decided = [&] { return decider_plus_1_.load(std::memory_order_acquire) != 0; };
  const auto anybody_awaited = [&] {
    for (int r = 0; r < world_size; ++r)
      if (is_still_awaited(r, memory)) return true;
    return false;
  };
  while (!has_decided() && Clock::now() - begin < deadline && anybody_awaited())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));

  if (!has_decided()) {
    own.ranks.reset();
    for (int r = 0; r < world_size; ++r)
      own.ranks[r] =
          votes_[r].state.load(std::memory_order_acquire) == State::here && !memory.has_died(r);
    own.shared = make_shared(static_cast<int>(own.ranks.count()));
    int nobody = 0;
    decider_plus_1_.compare_exchange_strong(nobody, rank + 1, std::memory_order_acq_rel);
  }

  Survivors survivors;
  survivors.decider = decider_plus_1_.load(std::memory_order_acquire) - 1;
  const Vote& decision = votes_[survivors.decider];
  RINGRAD_CHECK(decision.ranks[rank], CollectiveError, where, "shrink: ranks must come within ",
                std::chrono::duration<double>(deadline).count(), " s; rank ", names(rank),
                " was late, and the others have gone on");
  survivors.shared = decision.shared;
  for (int r = 0; r < world_size; ++r)
    if (decision.ranks[r])
      survivors.ranks.push_back(r);
    else if (is_still_awaited(r, memory))
      survivors.left_out.push_back(r);
  return survivors;
}

}  // namespace ringrad
