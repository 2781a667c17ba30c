// What a layer of a model costs: what partitions (partition.h) and predictions (training_cost.h) are made of. Measured by
// train/layer_profile.h, or assumed.

#pragma once

#include <cstdint>
#include <string>

namespace ringrad {

/// Of one micro-batch, on one device; layers are run one after the other.
struct LayerCost {
  std::string name;
  double forward_s = 0;
  double backward_input_s = 0;   ///< the gradient of the layer's input
  double backward_weight_s = 0;  ///< the gradients of its parameters
  std::int64_t parameter_bytes = 0;
  std::int64_t output_bytes =
      0;  ///< what the next layer needs, and as much comes back as its gradient
  std::int64_t saved_bytes = 0;  ///< what is kept from forward to backward
  bool joined = false;  ///< runs in one pass with the layer before it: nobody cuts in between

  double seconds() const { return forward_s + backward_input_s + backward_weight_s; }
};

}  // namespace ringrad
