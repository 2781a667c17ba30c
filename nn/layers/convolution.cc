#include "ringrad/nn/layers/convolution.h"

#include <cmath>

#include "ringrad/nn/init.h"

namespace ringrad::nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options,
               Where where)
    : options_(options) {
  const std::int64_t groups = options.groups;
  RINGRAD_CHECK(
      in_channels > 0 && out_channels > 0 && options.kernel > 0 && groups > 0 &&
          in_channels % groups == 0 && out_channels % groups == 0,
      ValueError, where,
      "Conv2d: channels and kernel must be positive and groups must divide the channels; got ",
      in_channels, " to ", out_channels, " channels, kernel ", options.kernel, ", groups ", groups);
  weight = parameter("weight",
                     empty({out_channels, in_channels / groups, options.kernel, options.kernel}));
  kaiming_uniform_(weight, std::sqrt(5.0));
  if (!options.bias) return;
  bias = parameter("bias", empty({out_channels}));
  const double bound = 1 / std::sqrt(static_cast<double>(fans_of(weight.shape()).in));
  uniform_(bias, -bound, bound);
}

Tensor Conv2d::forward(const Tensor& x, Where at) {
  const ringrad::Conv2dOptions options{.stride = {options_.stride, options_.stride},
                                       .padding = {options_.padding, options_.padding},
                                       .dilation = {options_.dilation, options_.dilation},
                                       .groups = options_.groups};
  return conv2d(x, weight, bias, options, at);
}

std::string Conv2d::describe() const {
  std::string text = concat("Conv2d(", weight.shape()[1] * options_.groups, ", ", weight.shape()[0],
                            ", kernel ", options_.kernel);
  const auto mention = [&](const char* name, std::int64_t value, std::int64_t usual) {
    if (value != usual) text += concat(", ", name, ' ', value);
  };
  mention("stride", options_.stride, 1);
  mention("padding", options_.padding, 0);
  mention("dilation", options_.dilation, 1);
  mention("groups", options_.groups, 1);
  return text + (bias.defined() ? ")" : ", no bias)");
}

}  // namespace ringrad::nn
