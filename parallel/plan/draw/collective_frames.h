// CollectiveFrames: a collective as the frames of a film: what every rank holds after each time
// slot, and the messages that led to it. draw_collective.h shows them.
//
//     frame 0   before the first step   rank 0: {0} {0}      rank 1: {1} {1}
//     frame 1   after time slot 0       rank 0: {0,1} {0}    rank 1: {1} {0,1}   messages 0 -> 1,
//     ...                                                                                 1 -> 0
//
// A faulty plan is shown up to the time slot in which it fails.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/collective/collective_plan.h"

namespace ringrad {

/// A chunk that was sent, and that a receive of this time slot has taken.
struct FrameMessage {
  int from, to, chunk;
  bool adds;    ///< recv_reduce, else recv
  bool staged;  ///< the sender's staged copy

  bool operator==(const FrameMessage&) const = default;
};

struct CollectiveFrame {
  int slot;                            ///< time slot of the steps; -1 for the first frame
  std::vector<FrameMessage> messages;  ///< in the order of the plan
  std::vector<std::vector<int>>
      ranks;  ///< (world_size * num_chunks) the ranks whose contributions a chunk holds
};

struct CollectiveFrames {
  std::vector<CollectiveFrame> frames;  ///< the initial one, and one for each time slot
  std::vector<std::vector<int>>
      promised;  ///< (world_size * num_chunks) the promised result; empty: scratch
  std::optional<CounterExample> fault;  ///< the fault in the last frame
};

/// Throws: std::invalid_argument with the counter-example if the plan is malformed
CollectiveFrames collective_frames(const CollectivePlan& plan);

/// Ranks as drawings label them: "{0,2,3}"; three or more in a row are a range, "{0-3,6}"; "" for
/// none.
std::string ranks_label(const std::vector<int>& ranks);

}  // namespace ringrad
