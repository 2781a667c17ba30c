// Predicts the time of a training step on data x pipeline devices that need not exist.
//
//     device of stage 0   | F0 F1 F2 F3 ..    B0    B1    B2    B3 |          |optimizer|
//     device of stage 1   |    F0 F1 B0 F2 B1 F3    B2    B3 |                 |opt.|
//     its communication stream                            [bucket 0][bucket 1]   over the data
//                                                                  |          |  axis
//                                                        backward ends    exposed until here
//
// Each of `data` replicas is a pipeline of `pipeline` devices (one, for replicas alone). The
// pipeline runs by its plan (pipeline_cost.h), with messages over the links. The gradients of a
// stage are complete when the backward pass of its last micro-batch is. They are reduced in buckets
// (gradient_buckets.h), each as soon as its last layer is done, one after another, by the fastest
// all_reduce that has a formula (collective_cost.h). The step ends when the slowest device has
// ended its reductions and its part of the optimizer:
//
//     step = max over devices of  max(backward's end, stream's end) + optimizer
//            + what a step needs besides
//
// Device s of replica d is rank s * data + d, as in a Mesh {{"pipeline", p}, {"data", n}}: replicas
// of a stage are neighbours, as they move more bytes than a pipeline.
//
//     bytes on a device = (1 + 1 + state) * parameters
//                         + the most that it keeps for backward passes (pipeline_check.h)
//
// README.md says more: "A predicted training step".

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/predict/cost.h"
#include "ringrad/parallel/plan/predict/layer_cost.h"

namespace ringrad {

struct TrainingSetup {
  std::vector<LayerCost> layers;  ///< of one micro-batch, on a device that runs alone
  int data = 1;                   ///< replicas
  int pipeline = 1;               ///< devices of each replica
  int stages_per_device = 1;      ///< more than 1 for "interleaved" only
  int micro_batches = 1;          ///< of each replica and step
  std::string schedule = "1f1b";  ///< pipeline_schedules.h
  /// (pipeline * stages_per_device) first layers of the stages.
  std::vector<std::size_t> starts = {0};

  CostModel links;
  /// Time that the sender and the receiver each spend on copying a message between stages; the
  /// message then takes no further time. Without it, links carry messages while the devices
  /// compute.
  std::optional<LinkCost> copies;
  /// algorithms to choose from; if empty, all that have a formula
  std::vector<std::string> all_reduces;
  std::int64_t bucket_bytes = 0;  ///< 0 derives it from the links' costs (gradient_buckets.h)
  /// True reduces buckets while backward goes on; false, after the device's last backward pass.
  bool overlap = true;

  /// Factor by which computing slows down while 1, 2, ... devices compute; more devices than listed
  /// use the last factor.
  std::vector<double> contention = {1};
  double optimizer_s_per_byte = 0;  ///< per byte of parameters
  double state_bytes_per_byte = 1;  ///< optimizer state per byte of parameters: momentum 1, Adam 2
  double other_s = 0;               ///< other work of a step: the loss, fetching a batch
};

struct TrainingPrediction {
  double step_s = 0;
  /// Share of the devices' time, until the last backward pass ends, in which they do not compute,
  /// but wait or copy.
  double bubble = 0;

  // Of the device that ends last.
  double compute_s = 0;        ///< forward and backward passes
  double communication_s = 0;  ///< reductions, hidden or not
  double exposed_s = 0;        ///< the part that backward does not hide
  double optimizer_s = 0;

  std::vector<std::int64_t> memory_bytes;  ///< (pipeline) of each device of a replica
  std::string all_reduce;  ///< algorithm for the largest bucket; empty without a data axis
  std::string
      /// "computation", "bubble", "communication" or "optimizer": the largest part of the step
      bottleneck;

  /// The share of communication that backward hides.
  double overlap() const { return communication_s > 0 ? 1 - exposed_s / communication_s : 0; }
  std::int64_t most_memory_bytes() const;
};

/// Throws: std::invalid_argument unless there is a layer and no layer's cost is negative; data,
///         pipeline, stages per device and micro-batches are positive; there are at most 2^31 - 1
///         devices and 2^22 forward passes; `starts` has a layer for every stage, 0 first, growing,
///         all below layers.size(); contention is given and at least 1; and the other figures are
///         not negative; as make_pipeline_plan and fastest_all_reduce
TrainingPrediction predict_step(const TrainingSetup& setup);

}  // namespace ringrad
