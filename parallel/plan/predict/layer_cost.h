// The cost of a layer of a model: the input of partitions (partition.h) and predictions
// (training_cost.h). Measured by train/pipeline/layer_profile.h, or assumed.

#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace ringrad {

/// True for what a cost may be.
inline bool is_cost(double value) { return value >= 0 && std::isfinite(value); }

/// For one micro-batch, on one device that runs layers one after another.
struct LayerCost {
  std::string name;
  double forward_s = 0;
  double backward_input_s = 0;   ///< the gradient of the layer's input
  double backward_weight_s = 0;  ///< the gradients of its parameters
  std::int64_t parameter_bytes = 0;
  std::int64_t output_bytes = 0;  ///< the next layer's input; as much comes back as its gradient
  std::int64_t saved_bytes = 0;   ///< kept from forward to backward
  bool joined = false;  ///< runs in one pass with the layer before it, so no cut may come between

  double seconds() const { return forward_s + backward_input_s + backward_weight_s; }
};

}  // namespace ringrad
