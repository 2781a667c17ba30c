// What a prediction of training has to know of a machine, measured here or assumed: ringrad-plan's two kinds of machines.

#pragma once

#include <string>
#include <vector>

#include "nn/models.h"
#include "parallel/plan/training_splits.h"

namespace ringrad {

/// What is to be trained.
struct TrainingTask {
  std::string model;
  nn::ImageTask images;
  double state_per_parameter = 1;  ///< SGD with momentum 1, Adam 2
};

/// The question's layers and `common`, and where its numbers come from, a sentence each.
struct TrainingMachine {
  SplitQuestion question;
  std::vector<std::string> measured, assumed;
};

/// Devices that are threads of this process, each with its share of the processors. Measured on one rank: forward and
/// backward passes, the layers as parts of them, the optimizer and the loss. With as many ranks: the links; what a message
/// takes of both ends; and contention, how much longer a pass over a replica's share takes while 1, 2, 4, ... ranks, in
/// turns, compute and the others wait, with straight lines between these numbers.
///
/// Throws: ValueError for an unknown model, unless 1 <= devices <= 32
TrainingMachine this_machine(const TrainingTask& task, int devices, std::int64_t batch);

/// Devices of a named topology (plan/topology.h); layers are counted and assumed (assumed_layers.h).
///
/// Throws: ValueError for an unknown model; std::invalid_argument as named_topology
TrainingMachine assumed_machine(const TrainingTask& task, const std::string& topology, int devices,
                                double efficiency);

}  // namespace ringrad
