// layer_profile: what each layer of a net costs, measured where the net is: what cuts (plan/partition.h) are made by.
//
//     for (const LayerCost& layer : profile_layers(net, batch)) ...
//
// Layers run as Sequential runs them. One that does a ReLU in the same pass is measured with it; the ReLU costs nothing of
// its own and is `joined`, so that no cut comes between them.
//
//     forward            the layer alone, recorded
//     backward_input     its backward pass with frozen parameters; 0 if no layer before needs a gradient
//     backward_weight    what the pass takes more when parameters are not frozen
//
// Times are the least of several passes, since whatever else a machine does only adds to them; by the clock on a CPU and by
// events on a GPU, simulated on a simulated one.
//
// A layer's saved bytes are what its forward pass makes and is still there when the next layer has run: what it keeps itself,
// and its output if that is what the next layer keeps. So the sum over layers in a row is what they keep together besides
// the input of the first; the last layer's output counts, for backward begins there. They come from the allocator's
// statistics: rounded as it rounds, on a CPU with the tape's own nodes, and right only if nobody else allocates on that
// device meanwhile.
//
// The net is left as it was, bit by bit: gradients, buffers, modes; so is the calling thread's generator. It runs in the
// mode in which it is. Hooks on its parameters do run, and a layer that talks to other ranks still talks.

#pragma once

#include <vector>

#include "nn/sequential.h"
#include "parallel/comm/communicator.h"
#include "parallel/plan/layer_cost.h"

namespace ringrad {

struct ProfileOptions {
  int warm_up = 2;  ///< passes before those that count
  int repeats = 5;  ///< passes that do, per layer
};

/// The cost of each of the net's layers, for micro-batches like `sample`. A layer's name is its child's and its kind:
/// "3 Linear".
///
/// Throws: ValueError unless the net has layers, warm_up >= 0 and repeats >= 1; what a layer throws, with
///         "profile_layers: layer 3 Linear: " in front
std::vector<LayerCost> profile_layers(nn::Sequential& net, const Tensor& sample,
                                      const ProfileOptions& options = {},
                                      Where where = Where::current());

/// Rank 0 measures, while the others wait; all get its numbers. Every rank calls it, with a net of as many layers.
///
/// Throws: ValueError "rank 0: ..." on all ranks if rank 0 cannot; CollectiveError, also if measuring takes longer than
///         the group's deadline
std::vector<LayerCost> profile_layers(nn::Sequential& net, const Tensor& sample, Communicator& comm,
                                      const ProfileOptions& options = {},
                                      Where where = Where::current());

}  // namespace ringrad
