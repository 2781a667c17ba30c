// Replay: runs a plan without data, on ranks that wait for each other, and records what met what.
//
// Every channel holds at most `slots` messages: a send that begins a message waits while its channel
// is full, a receive while it is empty. Each channel has one writer and one reader, so a step that could run stays
// able to run until it does: whatever order the ranks are let run in, the same messages meet, and
// the replay gets stuck in one order only if it does in all. One replay therefore speaks for every
// interleaving. More slots let every run continue that fewer do, so a plan that finishes with k
// slots finishes with any number from k up.

#pragma once

#include <vector>

#include "parallel/plan/collective_plan.h"

namespace ringrad {

struct Replay {
  /// Indices into plan.steps in the order they ran.
  std::vector<int> order;

  /// For a step that receives: the send that met each of its peers, -1 for the rank's own chunk.
  /// For a send: the step that took it. Empty for what did not run or was not taken.
  std::vector<std::vector<int>> partners;

  /// Per rank: the step it is stuck at, -1 for a rank that finished.
  std::vector<int> stuck_at;

  /// True when every rank ran all its steps.
  bool finished = true;
};

/// Runs the plan on channels of `slots` messages.
///
/// REQUIRES: slots >= 1; ranks and peers of all steps are in [0, world_size)
Replay replay(const CollectivePlan& plan, int slots);

}  // namespace ringrad
