// PipelineClock: when each action of a pipeline's step began and ended, on the clocks of all ranks.
//
// A step begins when all ranks have come to it. From there the CPU's times are the host's, and a GPU's those of its
// stream: of events before and after what an action has queued. Ranks that read one clock, as threads and processes of
// a machine do, count from the first of them; others each from when it saw that all had come.

#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "core/device.h"
#include "core/stream.h"
#include "parallel/comm/communicator.h"
#include "parallel/plan/pipeline_cost.h"

namespace ringrad {

class PipelineClock {
 public:
  /// REQUIRES: comm outlives it
  PipelineClock(Communicator& comm, Device device) : comm_(comm), device_(device) {}

  /// All ranks call it.
  void begin_step(Where where);
  /// Before the first action and after each.
  void mark(Where where);

  /// The spans of the latest step. All ranks call it.
  ///
  /// Throws: ValueError unless there was a step, with as many actions as the plan has
  PipelineTimes times(const PipelinePlan& plan, Where where) const;

 private:
  struct Reading;
  Reading own() const;

  Communicator& comm_;
  const Device device_;
  // From the step's begin; one of the two lists is used.
  std::vector<std::chrono::steady_clock::time_point> host_;
  std::vector<Event> device_events_;
};

}  // namespace ringrad
