// partition: where to cut a model into the stages of a pipeline.
//
//     layers     | 0 | 1 | 2 |   3   | 4 | 5 |       starts = {0, 3, 4}
//     stages     |     0     |   1   |   2   |       stage s has the layers [starts[s], starts[s + 1])
//     devices          0         1       0           stage s runs on device s mod p
//
// What a stage takes, per micro-batch and in all:
//
//     seconds = forward and backward of its layers + messages
//     bytes   = parameters (values, gradients, optimizer state) + kept (saved_bytes of its layers + its input)
//
// Its messages are those that it sends: its output, unless it is the last stage, and the gradient of its input, unless it
// is the first, alpha + bytes beta each; none where all stages are on one device. `kept` is for how many micro-batches
// the schedule keeps activations at once. Not counted: buffers, what kernels use while they run, messages under way.
//
// A pipeline is as fast as its slowest stage. With m micro-batches, v = stages / p stages per device and D the seconds
// of the slowest device a step takes about
//
//     T = m D + (sum of all stages' seconds - D) / v                       bubble = 1 - m (sum without messages) / (p T)
//
// which is exact for gpipe, 1f1b and interleaved if all stages are equal (pipeline_cost.h simulates the rest).
//
// optimal_partition is exact, by dynamic programming over the stages [b, e) that fit into memory:
//
//     least[s][e] = min over b of max(least[s - 1][b], seconds[b, e))
//
// and then the same once more for the sum of bytes sent, among stages that are no slower than the slowest has to be:
// O(stages layers^2). One limit per stage keeps that exact. Several stages on one of several devices share a limit, and
// which of them gets how much is as hard as dividing numbers into two equal sums (a layer between two cuts goes to one
// device or to the other), so there each stage may have an equal share: the result fits, and is the best of those.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "parallel/plan/cost.h"
#include "parallel/plan/layer_cost.h"
#include "parallel/plan/pipeline_plan.h"

namespace ringrad {

struct PartitionOptions {
  int num_devices = 0;  ///< the number of stages is a multiple of it; 0: as many as stages
  int num_micro_batches = 8;
  /// For how many micro-batches each stage keeps activations at once; a stage that is not listed keeps as many as the
  /// last one that is.
  std::vector<int> kept = {1};
  std::int64_t memory_limit_bytes = 0;  ///< of each device; 0: none
  double state_per_parameter = 0;  ///< optimizer state by bytes of parameters: Adam 2, momentum 1
  LinkCost link = {};
};

/// The devices, micro-batches and kept activations of a schedule; no limit.
///
/// REQUIRES: pipeline_check proves the plan
PartitionOptions partition_options(const PipelinePlan& plan);

/// What a stage takes; see above.
struct StageCost {
  int device = 0;
  std::size_t begin = 0, end = 0;  ///< its layers
  std::string first, last;         ///< their names
  double forward_s = 0;
  double backward_s = 0;
  double message_s = 0;
  std::int64_t memory_bytes = 0;

  double seconds() const { return forward_s + backward_s + message_s; }
};

/// What is predicted for a step.
struct StepPrediction {
  double seconds = 0;
  double bubble = 0;  ///< the share of the devices' time in which they wait, messages included
  std::int64_t memory_bytes = 0;  ///< of the device that needs most
};

struct Partition {
  std::vector<std::size_t> starts;
  std::vector<StageCost> stages;
  StepPrediction step = {};
  StepPrediction uniform_step = {};  ///< the same, cut uniformly
  int num_micro_batches = 1;
  std::int64_t memory_limit_bytes = 0;

  /// The first of the stages that take longest.
  std::size_t bottleneck() const;
};

/// By hand: stage s has the layers [starts[s], starts[s + 1]), the last one all that are left.
///
/// Throws: std::invalid_argument, here and below: unless there are layers; costs are finite and not negative; devices,
///         micro-batches and kept are positive; the other options are not negative; stages are a multiple of devices;
///         stages fit into memory, with what a device would need; and here, unless starts begin at 0, grow, are layers,
///         and separate no joined ones
Partition partition_at(const std::vector<LayerCost>& layers, const std::vector<std::size_t>& starts,
                       const PartitionOptions& options = {});

/// As many layers in each stage, or one more; joined layers count as one.
///
/// Throws: std::invalid_argument also unless there are as many layers, joined ones counted as one, as stages
Partition uniform_partition(const std::vector<LayerCost>& layers, int num_stages,
                            const PartitionOptions& options = {});

/// The cut whose slowest stage is fastest, among those that fit into memory and separate no joined layers; of equals
/// the one that sends the fewest bytes, of these the one whose last stage begins first, and so on down to the second.
///
/// Throws: std::invalid_argument as uniform_partition; if nothing fits, with the limit that would do
Partition optimal_partition(const std::vector<LayerCost>& layers, int num_stages,
                            const PartitionOptions& options = {});

/// A table with a line per stage, and what it is expected to gain.
std::ostream& operator<<(std::ostream& out, const Partition& partition);

}  // namespace ringrad
