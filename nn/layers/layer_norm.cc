#include "ringrad/nn/layers/layer_norm.h"

#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/norm/layer_norm.h"

namespace ringrad::nn {

LayerNorm::LayerNorm(std::int64_t features, double eps, Where where) : eps_(eps) {
  RINGRAD_CHECK(features > 0, ValueError, where, "LayerNorm: features must be positive; got ",
                features);
  check_eps("LayerNorm", eps, where);
  weight = parameter("weight", ones({features}));
  bias = parameter("bias", zeros({features}));
}

Tensor LayerNorm::forward(const Tensor& x, Where at) {
  return layer_norm(x, weight, bias, eps_, at);
}

std::string LayerNorm::describe() const { return concat("LayerNorm(", weight.numel(), ')'); }

}  // namespace ringrad::nn
