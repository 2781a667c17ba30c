// What the ranks of a group keep in the memory that they share; rank_group.h explains how they use
// it.
//
//     GroupFailure | RankState per rank | FailureReport per rank | two eager messages per rank

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "ringrad/parallel/comm/common/collective_call.h"

namespace ringrad {

/// Where a rank's data of one collective lie (plan_program.h), as distances that are valid on all
/// ranks.
struct PlaceNames {
  std::uintptr_t buffer = 0;
  std::uintptr_t staging = 0;  ///< the staging buffer, if there is one
  // Among threads: the caller's tensors, which must not be those of another rank. 0: none
  std::uintptr_t output = 0, input = 0;
};

/// One rank's part: written by its owner, read by all ranks. A second line holds the places, which
/// small calls among processes do not need.
///
/// 128 bytes, because processors fetch cache lines in pairs.
struct alignas(128) RankState {
  std::atomic<std::uint64_t> progress{0};
  std::array<CollectiveCall, 2> calls;
  std::atomic<bool> inside{false};
  std::atomic<bool> left{false};
  std::atomic<std::uint32_t> num_sleepers{0};  ///< that wait for this rank's progress
  alignas(64) std::array<PlaceNames, 2> places;
};
static_assert(sizeof(RankState) == 128);

/// A rank's report of a failure. Written once, by the rank that owns it.
struct FailureReport {
  int culprit = -1;
  std::array<char, 1020> text{};
};

/// The failure of the whole group.
struct alignas(128) GroupFailure {
  std::atomic<int> first_report{-1};  ///< the rank that made it
};

}  // namespace ringrad
