#include "nn/sequential.h"

namespace ringrad::nn {

Tensor Sequential::forward(const Tensor& x, Where where) {
  Tensor y = x;
  for (std::size_t i = 0; i < num_children(); ++i) {
    const bool relu_follows = i + 1 < num_children() && is_relu_[i + 1];
    y = relu_follows ? child_at(i).forward_relu(y, where) : child_at(i).forward(y, where);
    if (relu_follows) ++i;
  }
  return y;
}

}  // namespace ringrad::nn
