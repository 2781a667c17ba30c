// PipelineClock: when each action of a pipeline's step began and ended, on the clocks of all ranks.
//
// A step begins when all ranks have reached it. From then on, CPU times are the host's, and GPU
// times are those of events in the GPU's stream before and after the work that an action has
// queued. Ranks that read one clock, as threads and processes of a machine do, count from the first
// rank to begin. A rank with another clock counts from when it saw that all ranks had arrived.

#pragma once

#include <chrono>
#include <vector>

#include "ringrad/core/base/device.h"
#include "ringrad/core/gpu/stream.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/plan/predict/pipeline_cost.h"

namespace ringrad {

class PipelineClock {
 public:
  /// REQUIRES: comm outlives it
  PipelineClock(Communicator& comm, Device device) : comm_(comm), device_(device) {}

  /// All ranks call it.
  void begin_step(Where where);
  /// Call it before the first action and after each action.
  void mark(Where where);

  /// The spans of the latest step. All ranks must call it.
  ///
  /// Throws: ValueError unless there was a step, with as many actions as the plan has
  PipelineTimes times(const PipelinePlan& plan, Where where) const;

 private:
  struct Reading;
  Reading own() const;

  Communicator& comm_;
  const Device device_;
  // Counted from the beginning of the step; only one of the two lists is used.
  std::vector<std::chrono::steady_clock::time_point> host_;
  std::vector<Event> device_events_;
};

}  // namespace ringrad
