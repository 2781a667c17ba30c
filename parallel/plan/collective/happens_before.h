// HappensBefore: which steps have certainly run when another step touches memory.
//
// A step comes after the earlier steps of its rank and, if it receives, after what its senders had
// done when they sent. Nothing else is certain: between ranks, messages are the only clock.
//
//     rank 0   a ---- send \            a and b happen before d;
//     rank 1   b ----------- recv d     of a and b neither happens before the other
//
// Each step carries a vector clock: for every rank, how many of its steps have certainly run. The
// clocks are computed at the first question, since they take steps times ranks numbers, and many
// plans never need them.
//
// Paper: Mattern 1989, "Virtual time and global states of distributed systems".

#pragma once

#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"
#include "ringrad/parallel/plan/collective/replay.h"

namespace ringrad {

class HappensBefore {
 public:
  /// Keeps references to both. REQUIRES: run = replay(plan, ...) has finished
  HappensBefore(const CollectivePlan& plan, const Replay& run) : plan_(plan), run_(run) {}

  /// True if step `a` has run by the time step `b` reads or writes its chunk. Both are indices into
  /// plan.steps.
  bool operator()(int a, int b) {
    if (clock_.empty()) make_clocks();
    return position_[a] <= clock_[b][plan_.steps[a].rank];
  }

 private:
  void make_clocks();

  const CollectivePlan& plan_;
  const Replay& run_;
  std::vector<int> position_;            // (steps) 1 + place among the steps of its rank
  std::vector<std::vector<int>> clock_;  // (steps, world_size) known when the step runs
};

}  // namespace ringrad
