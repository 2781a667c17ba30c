// partition: where to cut a model into the stages of a pipeline.
//
//     layers     | 0 | 1 | 2 |   3   | 4 | 5 |    starts = {0, 3, 4}
//     stages     |     0     |   1   |   2   |    stage s: layers [starts[s], starts[s + 1])
//     devices          0         1       0        stage s runs on device s mod p
//
// The cost of a stage, per micro-batch and in total:
//
//     seconds = forward and backward of its layers + messages
//     bytes   = parameters (values, gradients, optimizer state)
//               + kept (saved_bytes of its layers + its input)
//
// A pipeline is as fast as its slowest stage. With m micro-batches, v = stages / p stages per
// device and D the seconds of the slowest device, a step takes about
//
//     T = m D + (sum of all stages' seconds - D) / v
//     bubble = 1 - m (sum without messages) / (p T)
//
// This is exact for gpipe, 1f1b and interleaved if all stages are equal (pipeline_cost.h simulates
// the rest). optimal_partition is exact, by dynamic programming over the stages [b, e) that fit
// into memory:
//
//     least[s][e] = min over b of max(least[s - 1][b], seconds[b, e))
//
// README.md says more: "Where to cut a model".

#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/pipeline/pipeline_plan.h"
#include "ringrad/parallel/plan/predict/cost.h"
#include "ringrad/parallel/plan/predict/layer_cost.h"

namespace ringrad {

struct PartitionOptions {
  int num_devices = 0;  ///< the number of stages is a multiple of it; 0: as many as stages
  int num_micro_batches = 8;
  /// The number of micro-batches whose activations each stage keeps at once; stages beyond the list
  /// use its last number.
  std::vector<int> kept = {1};
  std::int64_t memory_limit_bytes = 0;  ///< of each device; 0: none
  /// bytes of optimizer state per byte of parameters: Adam 2, momentum 1
  double state_per_parameter = 0;
  LinkCost link = {};
};

/// The devices, micro-batches and kept activations of a schedule; no memory limit.
///
/// REQUIRES: pipeline_check proves the plan
PartitionOptions partition_options(const PipelinePlan& plan);

/// The cost of a stage; see above.
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

/// The prediction for a step.
struct StepPrediction {
  double seconds = 0;
  double bubble = 0;              ///< share of the devices' time spent waiting, messages included
  std::int64_t memory_bytes = 0;  ///< of the device that needs the most
};

struct Partition {
  std::vector<std::size_t> starts;
  std::vector<StageCost> stages;
  StepPrediction step = {};
  StepPrediction uniform_step = {};  ///< the same for a uniform cut
  int num_micro_batches = 1;
  std::int64_t memory_limit_bytes = 0;

  /// The first of the slowest stages.
  std::size_t bottleneck() const;
};

/// Cuts at `starts`: stage s has the layers [starts[s], starts[s + 1]), the last stage all the
/// rest.
///
/// Throws: std::invalid_argument, here and below: unless there are layers; costs are finite and not
///         negative; devices, micro-batches and kept are positive; the other options are not
///         negative; stages are a multiple of devices; and stages fit into memory (the message has
///         the bytes that a device would need). Here also unless starts begin at 0, grow, stay
///         below the number of layers, and separate no joined layers
Partition partition_at(const std::vector<LayerCost>& layers, const std::vector<std::size_t>& starts,
                       const PartitionOptions& options = {});

/// The same number of layers in each stage, or one more; joined layers count as one.
///
/// Throws: std::invalid_argument also if there are fewer layers than stages, joined ones counted as
///         one
Partition uniform_partition(const std::vector<LayerCost>& layers, int num_stages,
                            const PartitionOptions& options = {});

/// The cut whose slowest stage is fastest, among those that fit into memory and separate no joined
/// layers. Among equals, the one that sends the fewest bytes; then the one whose last stage begins
/// first, and so on down to the second.
///
/// Throws: std::invalid_argument as uniform_partition; if nothing fits, with a limit that would
///         suffice
Partition optimal_partition(const std::vector<LayerCost>& layers, int num_stages,
                            const PartitionOptions& options = {});

/// A table with a line per stage, and the expected gain.
std::ostream& operator<<(std::ostream& out, const Partition& partition);

}  // namespace ringrad
