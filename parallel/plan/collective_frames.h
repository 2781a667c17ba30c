// CollectiveFrames: a collective as the pictures of a film: what every rank holds after each time slot, and the messages
// that brought it there. What draw_collective.h shows.
//
//     frame 0     before the first step       rank 0: {0} {0}        rank 1: {1} {1}
//     frame 1     after time slot 0           rank 0: {0,1} {0}      rank 1: {1} {0,1}      messages 0 -> 1, 1 -> 0
//     ...
//
// A plan that fails is shown up to the time slot in which it does.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/check.h"
#include "parallel/plan/collective_plan.h"

namespace ringrad {

/// A chunk on its way, which a receive of this time slot has taken.
struct FrameMessage {
  int from, to, chunk;
  bool adds;    ///< recv_reduce, else recv
  bool staged;  ///< the sender's copy of it

  bool operator==(const FrameMessage&) const = default;
};

struct CollectiveFrame {
  int slot;                            ///< of the steps; -1 for the first frame
  std::vector<FrameMessage> messages;  ///< in the order of the plan
  std::vector<std::vector<int>>
      ranks;  ///< (world_size * num_chunks) whose contributions a chunk holds
};

struct CollectiveFrames {
  std::vector<CollectiveFrame> frames;  ///< one, and one for each time slot
  std::vector<std::vector<int>>
      promised;  ///< (world_size * num_chunks) what ranks want; empty: scratch
  std::optional<CounterExample> fault;  ///< what is wrong in the last frame
};

/// Throws: std::invalid_argument for a plan that is malformed, with the counter-example
CollectiveFrames collective_frames(const CollectivePlan& plan);

/// Ranks as they are written in drawings: "{0,2,3}"; three and more in a row are a range, "{0-3,6}"; "" for none.
std::string ranks_label(const std::vector<int>& ranks);

}  // namespace ringrad
