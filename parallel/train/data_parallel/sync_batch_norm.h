// Synchronised batch norm: the ranks normalise by the statistics of all their batches together.
//
//     rank 0   x0 -> count, mean, var --.                                         .--> y0
//     rank 1   x1 -> count, mean, var --+-- all_gather -> mean, var of (x0, x1) --+--> y1
//
//     rank 0   g0 -> sum g, sum g xhat --.                                    .--> gradient of x0
//     rank 1   g1 -> sum g, sum g xhat --+-- all_reduce -> sums of (g0, g1) --+--> gradient of x1
//
// Each rank owns its part of the batch, and whole copies of parameters and running statistics.
// Parts may differ in size and may be empty: every value has the same weight, whichever rank holds
// it.
//
// Guarantee: n ranks compute what batch_norm computes on one rank for the concatenated parts, up to
// the rounding of another order of summation: y, the gradient of x, and the running statistics, the
// latter with identical bits on all ranks. The gradients of weight and bias are sums over a rank's
// own part, like those of every other parameter: DistributedDataParallel averages them.
//
// That average is the gradient of the mean loss of the global batch only if the parts are equal.
// Otherwise a rank's loss must be its sum times world_size / global batch.
//
// README.md says more: "Merging moments".
//
// Paper: Chan, Golub, LeVeque 1979, "Updating Formulae and a Pairwise Algorithm for Computing
//        Sample Variances"

#pragma once

#include "ringrad/nn/module.h"
#include "ringrad/parallel/comm/communicator.h"

namespace ringrad {

/// From now on every batch norm of the model normalises over the ranks of `comm` in training.
/// Returns the number of these layers. Evaluation normalises by the running statistics and calls no
/// other rank. All ranks must call this: the layers get a group of their own, split from `comm`,
/// which may be in use during backward (communication_stream.h).
///
/// All ranks must run the model alike, forward and backward: a layer makes one collective in each
/// (in backward only if x needs a gradient). Throws in training:
///
///     CollectiveError   unless the layer has one dtype and one number of channels on all ranks, or
///                       if ranks run different layers at the same time
///     ShapeError        if all ranks together have fewer than two values per channel
///     AutogradError     from backward with create_graph
///
/// A GPU's moments go through the host, so this cannot be part of a captured step
/// (nn/captured_step.h).
///
/// Throws: CollectiveError
int synchronize_batch_norm(nn::Module& model, Communicator& comm, Where where = Where::current());

}  // namespace ringrad
