// BranchRunner: calls a function for each branch, in turn or side by side (branches.h).
//
//     in turn    caller     |-- 0 --|-- 1 --|-- 2 --|
//
//     CPU        thread 0   |-- 0 --|-- 2 --|      a free thread takes the next branch; all have
//                thread 1   |-- 1 --|              equal shares of the caller's OpenMP team
//
//     GPU        caller's   --*               *--  *: events. A branch begins after earlier work in
//                stream 0     |-- 0 --|       |    the queue, and later work begins after all
//                stream 1     |----- 1 -------|    branches; the host never waits
//
// Each branch gets the caller's state (caller_state.h), so it computes the same wherever it runs.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ringrad/core/gpu/stream.h"
#include "ringrad/core/tensor.h"
#include "ringrad/parallel/train/tensor/branch_times.h"

namespace ringrad {

enum class BranchMode { side_by_side, in_turn, automatic };

struct BranchRunner {
  BranchMode mode = BranchMode::side_by_side;
  bool must_be_in_turn = false;                // overrides the mode
  std::vector<std::string> names;              // one per branch, for messages
  std::map<int, std::vector<Stream>> streams;  // by GPU, one per branch
};

using BranchBody = std::function<void(int k)>;

/// Calls body(k) for all branches, on x's device, and returns when they have ended or are queued.
/// `times` chooses the way in BranchMode::automatic, and receives the durations if `is_measured`.
///
/// Throws: once all branches have ended, the exception of the first that threw
void run_branches(BranchRunner& runner, BranchTimes& times, const Tensor& x, bool is_measured,
                  const BranchBody& body, Where where);

}  // namespace ringrad
