// HappensBefore: which steps have certainly run when another step touches memory.
//
// A step comes after the earlier steps of its rank and, if it receives, after what its senders had
// done when they sent. Nothing else is certain: between ranks, messages are the only clock.
//
//     rank 0   a ---- send \            a and b happen before d;
//     rank 1   b ----------- recv d     of a and b neither happens before the other
//
// Each rank has a vector clock: for every rank, how many of its steps have certainly run. A message
// carries its sender's clock. A walk through the run keeps only the ranks' present clocks and those
// of messages under way. Ranks share a clock object until one of them learns something.
//
// Paper: Mattern 1989, "Virtual time and global states of distributed systems".

#pragma once

#include <memory>
#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"
#include "ringrad/parallel/plan/collective/replay.h"

namespace ringrad {

class HappensBefore {
 public:
  /// Keeps references to both. REQUIRES: run = replay(plan, ...) has finished
  HappensBefore(const CollectivePlan& plan, const Replay& run);

  /// Advances to `step`, the next step of the run. REQUIRES: the calls follow run.order
  void advance(int step);

  /// True if step `a` has run by the time the latest step reads or writes its chunk. `a` is an
  /// index into plan.steps.
  bool operator()(int a) const {
    const int rank = plan_.steps[a].rank;
    const int own = plan_.steps[now_].rank;
    return rank == own ? position_[a] < position_[now_] : position_[a] <= (*known_[own])[rank];
  }

 private:
  using Clock = std::vector<int>;  // (world_size)

  void learn(int rank, int send);

  const CollectivePlan& plan_;
  const Replay& run_;
  int now_ = -1;               // the latest step
  std::vector<int> position_;  // (steps) 1 + place among the steps of its rank
  const std::shared_ptr<Clock> nothing_;
  std::vector<std::shared_ptr<Clock>> known_;  // (world_size)
  std::vector<std::shared_ptr<Clock>> sent_;   // (steps) with messages that are under way
};

}  // namespace ringrad
