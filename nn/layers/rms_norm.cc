#include "ringrad/nn/layers/rms_norm.h"

#include "ringrad/autograd/norm/check_norm.h"
#include "ringrad/autograd/norm/rms_norm.h"

namespace ringrad::nn {

RMSNorm::RMSNorm(std::int64_t features, double eps, Where where) : eps_(eps) {
  RINGRAD_CHECK(features > 0, ValueError, where, "RMSNorm: features must be positive; got ",
                features);
  check_eps("RMSNorm", eps, where);
  weight = parameter("weight", ones({features}));
}

Tensor RMSNorm::forward(const Tensor& x, Where at) { return rms_norm(x, weight, eps_, at); }

std::string RMSNorm::describe() const { return concat("RMSNorm(", weight.numel(), ')'); }

}  // namespace ringrad::nn
