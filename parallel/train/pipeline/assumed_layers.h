// assumed_layers: the cost of a net's layers on a device that this machine lacks. On a device that
// it has, profile_layers measures the cost.
//
// Counted on the CPU, with a forward and a backward pass of a small sample:
//
//     flops   2 * weight.numel() * output.numel() / output channels, summed over the layer's
//             convolutions and matrix products: each weight is multiplied and added once per place
//             of the output
//     bytes   of a layer's parameters, output and what it keeps for backward (layer_profile.h)
//
// Assumed, for a micro-batch of b samples: each pass takes the longer of its arithmetic and its
// memory traffic, at an efficiency (topology.h):
//
//     forward             flops,  input + output + 2 kept + parameters   (kept: written and read)
//     backward_input      flops,  the same; nothing if no earlier layer has parameters
//     backward_weight     flops,  the same; nothing without parameters
//
// Nothing of this is measured. The efficiency stands for kernels that do more than they must, or
// that leave the device idle. One launch per layer and pass is counted.

#pragma once

#include <cstdint>
#include <vector>

#include "ringrad/nn/layers/sequential.h"
#include "ringrad/parallel/plan/predict/layer_cost.h"
#include "ringrad/parallel/plan/predict/topology.h"

namespace ringrad {

/// A layer's arithmetic and memory traffic, per sample.
struct LayerWork {
  LayerCost
      bytes;  ///< name, parameter_bytes, joined, output_bytes and saved_bytes per sample; no times
  double flops = 0;        ///< of a forward pass of one sample
  double input_bytes = 0;  ///< of one sample
  bool needs_input_gradient = false;
};

/// Counts the work of each layer, with two samples of this shape; clears the net's gradients.
///
/// Throws: ValueError unless the net has layers; what a layer throws
std::vector<LayerWork> count_work(nn::Sequential& net, const Shape& sample,
                                  Where where = Where::current());

/// The layers' costs for a micro-batch of `samples` on a device of the topology.
///
/// Throws: std::invalid_argument unless samples >= 1 and 0 < efficiency <= 1
std::vector<LayerCost> assumed_layers(const std::vector<LayerWork>& work, std::int64_t samples,
                                      const Topology& topology, double efficiency);

}  // namespace ringrad
