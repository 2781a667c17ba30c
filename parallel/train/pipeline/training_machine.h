// What a prediction of training must know of a machine. ringrad-plan has two kinds of machines:
// measured here, or assumed.

#pragma once

#include <string>
#include <vector>

#include "ringrad/nn/models/models.h"
#include "ringrad/parallel/plan/predict/training_splits.h"

namespace ringrad {

/// The task to predict.
struct TrainingTask {
  std::string model;
  nn::ImageTask images;
  double state_per_parameter = 1;  ///< SGD with momentum 1, Adam 2
};

/// The question's layers and `common`, and the origin of its numbers, one sentence each.
struct TrainingMachine {
  SplitQuestion question;
  std::vector<std::string> measured, assumed;
};

/// Devices that are threads of this process, each with its share of the processors. One rank
/// measures forward and backward passes, the layers as parts of them, the optimizer and the loss.
/// All ranks measure the links; the time that a message takes on both ends; and contention: how
/// much longer a pass over a replica's share takes while 1, 2, 4, ... ranks compute and the others
/// wait, interpolated linearly in between.
///
/// Throws: ValueError for an unknown model, and unless 1 <= devices <= 32
TrainingMachine this_machine(const TrainingTask& task, int devices, std::int64_t batch);

/// Devices of a named topology (plan/predict/topology.h); layers are counted and assumed
/// (assumed_layers.h).
///
/// Throws: ValueError for an unknown model; std::invalid_argument as named_topology
TrainingMachine assumed_machine(const TrainingTask& task, const std::string& topology, int devices,
                                double efficiency);

}  // namespace ringrad
