#include "ringrad/nn/layers/linear.h"

#include <cmath>
#include <typeinfo>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/nn/init.h"

namespace ringrad::nn {

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias, Where where) {
  RINGRAD_CHECK(in_features > 0 && out_features > 0, ValueError, where,
                "Linear: feature counts must be positive; got ", in_features, " and ",
                out_features);
  weight = parameter("weight", empty({out_features, in_features}));
  kaiming_uniform_(weight, std::sqrt(5.0));
  if (!with_bias) return;
  bias = parameter("bias", empty({out_features}));
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  const NoGradGuard guard;
  uniform_(bias, -bound, bound);
}

Tensor Linear::forward(const Tensor& x, Where at) { return linear(x, weight, bias, false, at); }

Tensor Linear::forward_relu(const Tensor& x, Where at) {
  if (typeid(*this) != typeid(Linear)) return Module::forward_relu(x, at);
  return linear(x, weight, bias, true, at);
}

std::string Linear::describe() const {
  return concat("Linear(", weight.shape()[1], ", ", weight.shape()[0],
                bias.defined() ? ")" : ", no bias)");
}

}  // namespace ringrad::nn
