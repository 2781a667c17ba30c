#include "ringrad/nn/layers/row_norm.h"

#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/norm/row_norm.h"

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

RMSNorm::RMSNorm(std::int64_t features, double eps, Where where) : eps_(eps) {
  RINGRAD_CHECK(features > 0, ValueError, where, "RMSNorm: features must be positive; got ",
                features);
  check_eps("RMSNorm", eps, where);
  weight = parameter("weight", ones({features}));
}

Tensor RMSNorm::forward(const Tensor& x, Where at) { return rms_norm(x, weight, eps_, at); }

std::string RMSNorm::describe() const { return concat("RMSNorm(", weight.numel(), ')'); }

}  // namespace ringrad::nn
