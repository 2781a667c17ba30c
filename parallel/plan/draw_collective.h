// Pictures of collectives, made from nothing but the plan: which chunks travel in each time slot, and whose contributions
// every chunk holds. Ranks are columns, chunks are rows; rightward messages are drawn above their row, leftward ones below.
//
//                 rank 0      rank 1      rank 2
//                       .---------.
//     chunk 0    [ {0} ]   \-> [ {0,1} ]  [ {2} ]          {0,1}: the sum of what ranks 0 and 1 had
//     chunk 1    [ {0} ]     [ {1} ]  --> [ {1,2} ]
//
//     collective_html   a page that goes through the steps, forth and back: buttons, slider, arrow keys; "page.html#step=3"
//                       opens it there. Beside the chunks the ranks stand in a circle, with who talks to whom.
//     collective_svg    all steps in one picture, where there are no scripts
//
// A plan that fails (check.h) is drawn up to the step in which it does, with what is wrong in red.

#pragma once

#include <cstdint>
#include <string>

#include "parallel/plan/collective_frames.h"
#include "parallel/plan/collective_plan.h"

namespace ringrad {

/// What a reader can still see.
constexpr int kMostDrawnRanks = 16, kMostDrawnChunks = 256;
/// Ranks times chunks times time slots.
constexpr std::int64_t kMostDrawnCells = std::int64_t{1} << 22;

/// Throws: std::invalid_argument, here and below, for a plan that is malformed, or has more ranks, chunks or cells
std::string collective_html(const CollectivePlan& plan);

std::string collective_svg(const CollectivePlan& plan);

/// "ring all_reduce: 4 ranks, 4 chunks, 6 steps"
std::string collective_title(const CollectivePlan& plan);

/// "each rank sends 1.5 S in 6 messages (S: the bytes of the buffer)", or from which number to which.
std::string collective_costs(const CollectivePlan& plan);

/// The frames, for what can be drawn.
CollectiveFrames frames_to_draw(const CollectivePlan& plan);

}  // namespace ringrad
