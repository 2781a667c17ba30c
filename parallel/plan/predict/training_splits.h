// The ways to use a number of devices: every split into replicas times pipelines, with the
// predicted time of a step.
//
//     8 devices     8 x 1   a batch is cut into 8 shares, one per replica
//                   4 x 2   into 4 shares; each passes through 2 devices in micro-batches
//                   2 x 4   ...
//                   1 x 8
//
// optimal_partition (partition.h) cuts the stages, and predict_step (training_cost.h) predicts the
// steps. Replicas without a pipeline process their share at once, not in micro-batches.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringrad/parallel/plan/predict/training_cost.h"

namespace ringrad {

struct SplitQuestion {
  int devices = 1;
  std::int64_t batch = 1;  ///< samples of a step, in all replicas together
  int micro_batches = 1;   ///< of a replica that is a pipeline
  std::vector<std::string> schedules = {"1f1b"};
  int interleaved_stages = 2;           ///< per device, of schedules that take several
  std::int64_t memory_limit_bytes = 0;  ///< of each device; 0: none
  /// The layers of a micro-batch of this many samples; called once for each number.
  std::function<std::vector<LayerCost>(std::int64_t samples)> layers;
  /// The settings of all splits: links, copies, all_reduces, bucket_bytes, overlap, contention,
  /// optimizer, other. Other fields keep their defaults.
  TrainingSetup common = {};
};

struct TrainingSplit {
  int data = 1;
  int pipeline = 1;
  std::string schedule;  ///< empty for replicas alone
  int micro_batches = 1;
  std::int64_t samples = 0;  ///< of a micro-batch
  std::vector<std::size_t> starts;
  TrainingPrediction prediction;
  std::string refused;  ///< why the split cannot be used; empty if it can
};

/// Every split of the devices, by growing pipelines, with every schedule; a split that no schedule
/// can use appears once.
///
/// Throws: std::invalid_argument unless devices, batch, micro_batches and interleaved_stages are
///         positive, the limit is not negative and the schedules are known; what `layers` and
///         predict_step throw
std::vector<TrainingSplit> predict_splits(const SplitQuestion& question);

/// The index of the split with the least predicted time, the first among equals; -1 if none can be
/// used.
int fastest_split(const std::vector<TrainingSplit>& splits);

}  // namespace ringrad
