// How long a step of training takes on data x pipeline devices, before there are so many.
//
//     device of stage 0   | F0 F1 F2 F3 ..    B0    B1    B2    B3 |          |optimizer|
//     device of stage 1   |    F0 F1 B0 F2 B1 F3    B2    B3 |                 |opt.|
//       lane beside it                               [bucket 0][1]|                        reduced over the data axis
//                                                                 |          |
//                                                        backward ends      exposed: what the lane still has to do
//
// Each of `data` replicas is a pipeline of `pipeline` devices (one, for replicas alone). The pipeline runs by its plan
// (pipeline_cost.h), with messages over the links. The gradients of a stage are complete when the backward pass of its
// last micro-batch is; they are reduced in buckets (gradient_buckets.h), each as soon as the last layer of it is done, one
// after the other, by the fastest of the all_reduces that have a formula (collective_cost.h). The step ends when the
// slowest device's reductions and its part of the optimizer have ended:
//
//     step = max over devices of  max(backward's end, lane's end) + optimizer    + what a step needs besides
//
// Device s of replica d is rank s * data + d, as in a Mesh {{"pipeline", p}, {"data", n}}: replicas of a stage are neighbours,
// as they move more bytes than a pipeline.
//
//     bytes on a device = (1 + 1 + state) * parameters + the most that it keeps for backward passes (pipeline_check.h)
//
// Parameters, gradients, optimizer's state; saved_bytes of a stage's layers and the input that it has received. Not
// counted: the batch, operators' workspace, messages under way.
//
// What it does not know: ranks that are late, other traffic on a network, messages of a pipeline and of the data axis
// that share a port, and gradients that are made slower by reductions at the same time. What devices that share
// processors or memory do to each other's computation is measured and given as `contention`; all replicas compute or
// wait at a time.
//
// Time and memory grow with pipeline * stages_per_device * micro_batches, not with data: 10,000 devices take milliseconds.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/cost.h"
#include "parallel/plan/layer_cost.h"

namespace ringrad {

struct TrainingSetup {
  std::vector<LayerCost>
      layers;                 ///< of one micro-batch, on one device that has all it needs to itself
  int data = 1;               ///< replicas
  int pipeline = 1;           ///< devices of each
  int stages_per_device = 1;  ///< more for "interleaved" only
  int micro_batches = 1;      ///< of each replica and step
  std::string schedule = "1f1b";  ///< pipeline_schedules.h
  std::vector<std::size_t> starts = {
      0};  ///< (pipeline * stages_per_device) first layers of the stages

  CostModel links;
  /// What a message between stages takes of its sender's own time, and of its receiver's; nothing besides. None: links
  /// carry it while the devices compute.
  std::optional<LinkCost> copies;
  std::vector<std::string> all_reduces;  ///< that may be chosen; none: all that have a formula
  std::int64_t bucket_bytes = 0;         ///< 0: what fits the links
  bool overlap =
      true;  ///< buckets are reduced while backward goes on; else after the device's last backward pass

  /// How many times longer a device computes while 1, 2, ... devices do; more than are listed: the last.
  std::vector<double> contention = {1};
  double optimizer_s_per_byte = 0;  ///< of parameters
  double state_bytes_per_byte = 1;  ///< the optimizer's, per byte of parameters: momentum 1, Adam 2
  double other_s = 0;               ///< what a step needs besides: the loss, fetching a batch
};

struct TrainingPrediction {
  double step_s = 0;
  /// Share of the devices' time in which they do not compute, but wait or copy, until the last backward pass ends.
  double bubble = 0;

  // Of the device that is the last.
  double compute_s = 0;        ///< forward and backward passes
  double communication_s = 0;  ///< reductions, hidden or not
  double exposed_s = 0;        ///< of which backward does not hide
  double optimizer_s = 0;

  std::vector<std::int64_t> memory_bytes;  ///< (pipeline) of each device of a replica
  std::string all_reduce;  ///< how the largest bucket is reduced; empty without a data axis
  std::string
      bottleneck;  ///< "computation", "bubble", "communication" or "optimizer": the largest part of the step

  /// The share of communication that backward hides.
  double overlap() const { return communication_s > 0 ? 1 - exposed_s / communication_s : 0; }
  std::int64_t most_memory_bytes() const;
};

/// Throws: std::invalid_argument unless there is a layer and no cost of one is negative; data, pipeline, stages per device
///         and micro-batches are positive and there are at most 2^31 - 1 devices and 2^22 forward passes; `starts` has a
///         layer for every stage, 0 first, growing, all below layers.size(); contention is given and at
///         least 1, and the other figures are not negative; as make_pipeline_plan and fastest_all_reduce
TrainingPrediction predict_step(const TrainingSetup& setup);

}  // namespace ringrad
