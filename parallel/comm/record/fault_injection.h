// Fault injection: tests how a job reacts when ranks fail.
//
//     ringrun -n 4 --inject kill:2@step=17,delay:0=50ms ./train
//
//     FAULT    KIND:RANK[=VALUE][@step=N|@call=N|@point=NAME[:N]][@restart=N]
//              separate several faults by commas
//
//     kill:2@step=17        rank 2 ends by SIGKILL when its training step 17 begins
//     stop:1@call=5         rank 1 stops (SIGSTOP) before its fifth call: it lives but does nothing
//     exit:3=7@call=40      rank 3 exits with code 7 (default 1) without telling the others
//     abort:3@call=40       rank 3 ends by SIGABRT
//     delay:0=50ms          rank 0 waits before each call (with @call or @step: that one only)
//
//     kill:1@point=bucket_launched:5    rank 1 ends when it passes that fault point (fault_point.h)
//                                       for the fifth time (default: the first)
//
// Calls are the collectives and messages of all groups of the rank, counted from 1, including the
// barrier in which ranks join. fault_step() counts steps from 1. DistributedDataParallel calls it
// when a forward pass in training begins, ShardedOptimizer when its step begins. A rank reports its
// fault on stderr.
//
// A fault happens in the first run of a job, or in restart N with @restart=N; otherwise no restart
// could succeed. Under any launcher, RINGRAD_INJECT passes the plan to the ranks. Thread ranks have
// no faults. Without a plan a call costs one test of a pointer.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/parallel/comm/record/fault_point.h"

namespace ringrad {

struct PlannedFault {
  enum class Kind { kill, stop, exit, abort, delay };
  enum class Event { step, call, point };

  Kind kind = Kind::kill;
  int rank = 0;
  int exit_code = 1;                 ///< of exit
  std::chrono::milliseconds wait{};  ///< of delay
  Event event = Event::call;
  FaultPoint point{};                     ///< of Event::point
  std::optional<std::uint64_t> number{};  ///< of the event, from 1; none: every event
  int restart = 0;                        ///< the run it happens in

  bool operator==(const PlannedFault&) const = default;
};

/// Reads a plan, which may be empty.
///
/// Throws: ValueError, with the requirement and the actual text, unless every fault has the form
///         above, its rank is in [0, world_size), and every fault but a delay says when it happens
std::vector<PlannedFault> parse_faults(std::string_view plan, int world_size,
                                       Where where = Where::current());

/// The faults planned for this process.
class FaultInjection {
 public:
  /// Null if no faults are planned. Reads the environment on the first call.
  ///
  /// Throws: ValueError for an invalid environment
  static FaultInjection* planned();

  explicit FaultInjection(std::vector<PlannedFault> faults) : faults_(std::move(faults)) {}

  /// One of these events begins. May not return. Thread-safe.
  void call() { happens(PlannedFault::Event::call, ++num_calls_); }
  void step() { happens(PlannedFault::Event::step, ++num_steps_); }
  void pass(FaultPoint point) {
    happens(PlannedFault::Event::point, ++num_passes_[static_cast<std::size_t>(point)], point);
  }

 private:
  void happens(PlannedFault::Event event, std::uint64_t number, FaultPoint point = {});

  const std::vector<PlannedFault> faults_;  // of this rank and run
  std::atomic<std::uint64_t> num_calls_{0}, num_steps_{0};
  std::array<std::atomic<std::uint64_t>, std::size(kFaultPointNames)> num_passes_{};
};

/// Marks the start of a training step on this rank, for loops without DistributedDataParallel.
inline void fault_step() {
  if (FaultInjection* injection = FaultInjection::planned()) [[unlikely]]
    injection->step();
}

}  // namespace ringrad
