#include "nn/sequential.h"

namespace ringrad::nn {

Tensor Sequential::forward(const Tensor& x, Where where) {
  Tensor y = x;
  for (std::size_t i = 0; i < num_children(); ++i) {
    const bool relu_follows = i + 1 < num_children() && is_relu_[i + 1];
    Module& layer = child_at(i);
    const TraceSpan span(layer.trace_name(), "layer");
    y = relu_follows ? layer.forward_relu(y, where) : layer.forward(y, where);
    if (relu_follows) ++i;
  }
  return y;
}

}  // namespace ringrad::nn
