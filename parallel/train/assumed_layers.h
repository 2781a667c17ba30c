// assumed_layers: what the layers of a net would cost on a device that is not here, where profile_layers measures.
//
// Counted on the CPU, with a forward and a backward pass of a small sample:
//
//     flops     2 * weight.numel() * output.numel() / output channels, summed over the layer's convolutions and matrix
//               products: each weight is multiplied and added once per place of the output
//     bytes     of a layer's parameters, output and what it keeps for backward (layer_profile.h)
//
// And assumed, for a micro-batch of b samples, each the slower of arithmetic and memory, at an efficiency (topology.h):
//
//     forward             flops,  input + output + 2 kept + parameters       what is kept inside is written and read
//     backward_input      flops,  the same; nothing if no layer before has parameters
//     backward_weight     flops,  the same; nothing without parameters
//
// Nothing of this is measured. Kernels that do more than they must, or leave the device idle, are what the efficiency
// stands for; one launch per layer and pass is counted.

#pragma once

#include <cstdint>
#include <vector>

#include "nn/sequential.h"
#include "parallel/plan/layer_cost.h"
#include "parallel/plan/topology.h"

namespace ringrad {

/// A layer's arithmetic and memory traffic, per sample.
struct LayerWork {
  LayerCost
      bytes;  ///< name, parameter_bytes, joined; output_bytes and saved_bytes of one sample; no times
  double flops = 0;        ///< of a forward pass of one sample
  double input_bytes = 0;  ///< of one sample
  bool needs_input_gradient = false;
};

/// Counts it, per layer, with two samples of this shape; gradients of the net are cleared.
///
/// Throws: ValueError unless the net has layers; what a layer throws
std::vector<LayerWork> count_work(nn::Sequential& net, const Shape& sample,
                                  Where where = Where::current());

/// The costs of a micro-batch of `samples` on a device of the topology.
///
/// Throws: std::invalid_argument unless samples >= 1 and 0 < efficiency <= 1
std::vector<LayerCost> assumed_layers(const std::vector<LayerWork>& work, std::int64_t samples,
                                      const Topology& topology, double efficiency);

}  // namespace ringrad
