// layer_profile: the cost of each layer of a net, measured where the net is. Partitions
// (plan/predict/partition.h) are computed from these costs.
//
//     for (const LayerCost& layer : profile_layers(net, batch)) ...
//
// Layers run as Sequential runs them. A layer that does the following ReLU in the same pass is
// measured with it; the ReLU then costs nothing of its own and is `joined`, so that no cut comes
// between the two.
//
//     forward            the layer alone, recorded
//     backward_input     its backward pass with frozen parameters; 0 if no earlier layer needs one
//     backward_weight    the additional time of that pass when parameters are not frozen
//
// Times are the least of several passes, since all disturbances only add to them. They come from
// the clock on a CPU and from events on a GPU; simulated GPUs report simulated times.
//
// A layer's saved bytes are made by its forward pass and still exist when the next layer has run:
// what it keeps itself, and its output if the next layer keeps that. So consecutive layers together
// keep the sum of their saved bytes, besides the input of the first. The last layer's output
// counts, because backward begins there. The bytes come from the allocator's statistics: they are
// rounded as it rounds, include the tape's own nodes on a CPU, and are right only if no other code
// allocates on that device in the meantime.
//
// README.md says more: "What profiling leaves as it was".

#pragma once

#include <vector>

#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/comm/communicator.h"
#include "ringrad/parallel/plan/predict/layer_cost.h"

namespace ringrad {

struct ProfileOptions {
  int warm_up = 2;  ///< passes that do not count
  int repeats = 5;  ///< passes that count, per layer
};

/// The cost of each of the net's layers, for micro-batches like `sample`. A layer's name is its
/// name in the net and its kind: "3 Linear", "layer1.0 ResidualBlock".
///
/// Throws: ValueError unless the net has layers, warm_up >= 0 and repeats >= 1; what a layer
///         throws, with "profile_layers: layer 3 Linear: " before its message
std::vector<LayerCost> profile_layers(nn::Sequential& net, const Tensor& sample,
                                      const ProfileOptions& options = {},
                                      Where where = Where::current());

/// Rank 0 measures while the other ranks wait; all ranks get rank 0's numbers. Every rank must call
/// it, with a net of the same number of layers.
///
/// Throws: ValueError "rank 0: ..." on all ranks if rank 0 fails; CollectiveError, also if
///         measuring takes longer than the group's deadline
std::vector<LayerCost> profile_layers(nn::Sequential& net, const Tensor& sample, Communicator& comm,
                                      const ProfileOptions& options = {},
                                      Where where = Where::current());

}  // namespace ringrad
