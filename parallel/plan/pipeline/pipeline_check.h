// pipeline_check: a proof that a pipeline schedule computes every gradient once, or a
// counter-example.
//
// It proves, in this order:
//
//   shape      stages are on their devices; stages and micro-batches exist
//   once       each stage computes each micro-batch once forward and once backward, whole or in its
//              two halves
//   order      whatever an action needs has been made before: a stage's input, the gradient of its
//              output, its own forward pass
//   matching   messages are received in the order in which they were sent
//   progress   no deadlock when every channel holds `slots` messages
//
// Devices take their actions in order and channels are first in first out, so possible runs differ
// in time only: a proof for one run holds for all (replay.h).

#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/collective/check.h"
#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"

namespace ringrad {

/// Where and how a schedule fails. Indices are -1 where they do not apply.
struct PipelineCounterExample {
  PlanFault fault;
  int device;
  int index;         ///< into the device's actions
  std::string text;  ///< "<what must hold>; got <what happens>"
};

/// Returns nothing if the plan, with its messages, is proved for channels of `slots` messages; else
/// the first failure.
///
/// REQUIRES: slots >= 1
std::optional<PipelineCounterExample> pipeline_check(const PipelinePlan& plan, int slots = 1);

/// The most micro-batches whose activations each device keeps at the same time, counted per stage.
/// Meaningful only if pipeline_check proves the plan.
///
/// Throws: std::invalid_argument, here and below, if an action's stage does not exist or has no
///         entry in saved_bytes
std::vector<int> peak_kept(const PipelinePlan& plan);

/// The same in bytes, where stage s keeps saved_bytes[s] of a micro-batch.
std::vector<std::int64_t> peak_kept_bytes(const PipelinePlan& plan,
                                          const std::vector<std::int64_t>& saved_bytes);

/// "deadlock: <text>"
std::ostream& operator<<(std::ostream& out, const PipelineCounterExample& example);

}  // namespace ringrad
