// Pictures of collectives, made from the plan alone: which chunks are sent in each time slot, and
// whose contributions every chunk holds. Ranks are columns, chunks are rows. Rightward messages are
// drawn above their row, leftward ones below.
//
//                 rank 0      rank 1      rank 2
//                       .---------.
//     chunk 0    [ {0} ]   \-> [ {0,1} ]  [ {2} ]          {0,1}: the sum of what ranks 0 and 1 had
//     chunk 1    [ {0} ]     [ {1} ]  --> [ {1,2} ]
//
//     collective_html   a page that steps forth and back: buttons, slider, arrow keys;
//                       "page.html#step=3" opens it at a step. Beside the chunks, the ranks form a
//                       circle, with lines between ranks that exchange messages.
//     collective_svg    all steps in one picture, for places without scripts
//
// A faulty plan (check.h) is drawn up to the step in which it fails, with the fault in red.

#pragma once

#include <cstdint>
#include <string>

#include "ringrad/parallel/plan/collective/collective_plan.h"
#include "ringrad/parallel/plan/draw/collective_frames.h"

namespace ringrad {

/// Limits above which a drawing would be unreadable.
constexpr int kMostDrawnRanks = 16, kMostDrawnChunks = 256;
/// Limit of ranks times chunks times time slots.
constexpr std::int64_t kMostDrawnCells = std::int64_t{1} << 22;

/// A page that steps through the plan.
///
/// Throws:  std::invalid_argument, here and below, for a plan that is malformed, or has more ranks,
///          chunks or cells than above
std::string collective_html(const CollectivePlan& plan);

/// All steps in one picture.
std::string collective_svg(const CollectivePlan& plan);

/// "ring all_reduce: 4 ranks, 4 chunks, 6 steps"
std::string collective_title(const CollectivePlan& plan);

/// "each rank sends 1.5 S in 6 messages (S: the bytes of the buffer)", or the range if ranks
/// differ.
std::string collective_costs(const CollectivePlan& plan);

/// The frames of a plan that can be drawn.
CollectiveFrames frames_to_draw(const CollectivePlan& plan);

}  // namespace ringrad
