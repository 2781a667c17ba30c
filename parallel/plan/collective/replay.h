// Replay: runs a plan without data, on ranks that wait for each other, and records which sends and
// receives met.
//
// Every channel holds at most `slots` messages: a send that begins a message waits while its
// channel is full, a receive while it is empty. Each channel has one writer and one reader, so a
// step that can run stays able to run until it does. In whatever order the ranks run, the same
// sends and receives meet. If the replay gets stuck in one order, it gets stuck in all. One replay
// therefore covers every interleaving. More slots allow every run that fewer slots allow, so a plan
// that finishes with k slots finishes with any larger number.

#pragma once

#include <vector>

#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

struct Replay {
  /// Indices into plan.steps in the order they ran.
  std::vector<int> order;

  /// For a step that receives: the send that met each of its peers, -1 for the rank's own chunk.
  /// For a send: the step that took it. Empty for steps that did not run or were not taken.
  std::vector<FewInts> partners;

  /// Per rank: the step at which it is stuck, -1 for a rank that finished.
  std::vector<int> stuck_at;

  /// True if every rank ran all its steps.
  bool finished = true;
};

/// Runs the plan on channels of `slots` messages.
///
/// REQUIRES: slots >= 1; ranks and peers of all steps are in [0, world_size)
Replay replay(const CollectivePlan& plan, int slots);

}  // namespace ringrad
