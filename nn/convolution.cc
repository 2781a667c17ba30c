#include "ringrad/nn/convolution.h"

#include <cmath>

#include "ringrad/nn/init.h"

namespace ringrad::nn {

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dConfig& config,
               Where where)
    : config_(config) {
  const std::int64_t groups = config.groups;
  RINGRAD_CHECK(
      in_channels > 0 && out_channels > 0 && config.kernel > 0 && groups > 0 &&
          in_channels % groups == 0 && out_channels % groups == 0,
      ValueError, where,
      "Conv2d: channels and kernel must be positive and groups must divide the channels; got ",
      in_channels, " to ", out_channels, " channels, kernel ", config.kernel, ", groups ", groups);
  weight = parameter("weight",
                     empty({out_channels, in_channels / groups, config.kernel, config.kernel}));
  kaiming_uniform_(weight, std::sqrt(5.0));
  if (!config.bias) return;
  bias = parameter("bias", empty({out_channels}));
  const double bound = 1 / std::sqrt(static_cast<double>(fans_of(weight.shape()).in));
  uniform_(bias, -bound, bound);
}

Tensor Conv2d::forward(const Tensor& x, Where where) {
  const Conv2dOptions options{.stride = {config_.stride, config_.stride},
                              .padding = {config_.padding, config_.padding},
                              .dilation = {config_.dilation, config_.dilation},
                              .groups = config_.groups};
  return conv2d(x, weight, bias, options, where);
}

std::string Conv2d::describe() const {
  std::string text = concat("Conv2d(", weight.shape()[1] * config_.groups, ", ", weight.shape()[0],
                            ", kernel ", config_.kernel);
  const auto mention = [&](const char* name, std::int64_t value, std::int64_t usual) {
    if (value != usual) text += concat(", ", name, ' ', value);
  };
  mention("stride", config_.stride, 1);
  mention("padding", config_.padding, 0);
  mention("dilation", config_.dilation, 1);
  mention("groups", config_.groups, 1);
  return text + (bias.defined() ? ")" : ", no bias)");
}

}  // namespace ringrad::nn
