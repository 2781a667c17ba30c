// BranchRunner: calls a function for each branch, in turn or side by side (branches.h).
//
//     in turn    caller     |-- 0 --|-- 1 --|-- 2 --|
//
//     CPU        thread 0   |-- 0 --|-- 2 --|         a thread that is free takes the next branch; threads have equal
//                thread 1   |-- 1 --|                 shares of the caller's OpenMP team
//
//     GPU        caller's   --*               *--     *: events. A branch begins after what was queued before it, and
//                stream 0     |-- 0 --|       |       what is queued later begins after all branches; the host waits
//                stream 1     |----- 1 -------|       for nothing
//
// Each branch gets the caller's state (caller_state.h), so it computes the same wherever it runs.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/stream.h"
#include "core/tensor.h"
#include "parallel/train/branch_times.h"

namespace ringrad {

enum class BranchMode { side_by_side, in_turn, automatic };

struct BranchRunner {
  BranchMode mode = BranchMode::side_by_side;
  bool must_be_in_turn = false;                // whatever the mode
  std::vector<std::string> names;              // one per branch, for messages
  std::map<int, std::vector<Stream>> streams;  // by GPU, one per branch
};

using BranchBody = std::function<void(int k)>;

/// Calls body(k) for all branches, where x is, and returns when that is done, or queued. `times` chooses the way in
/// BranchMode::automatic, and gets to know how long it took if `is_measured`.
///
/// Throws: once all have ended, what the first of them has thrown
void run_branches(BranchRunner& runner, BranchTimes& times, const Tensor& x, bool is_measured,
                  const BranchBody& body, Where where);

}  // namespace ringrad
