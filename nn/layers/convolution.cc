#include "ringrad/nn/layers/convolution.h"

#include <cmath>

#include "ringrad/nn/init.h"

namespace ringrad::nn {
namespace {

template <class Options>
void check_layer(const char* name, std::int64_t in_channels, std::int64_t out_channels,
                 const Options& options, Where where) {
  const std::int64_t groups = options.groups;
  RINGRAD_CHECK(in_channels > 0 && out_channels > 0 && options.kernel > 0 && groups > 0 &&
                    in_channels % groups == 0 && out_channels % groups == 0,
                ValueError, where, name,
                ": channels and kernel must be positive and groups must divide the channels; got ",
                in_channels, " to ", out_channels, " channels, kernel ", options.kernel,
                ", groups ", groups);
}

void initialise(const Tensor& weight, const Tensor& bias) {
  kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(fans_of(weight.shape()).in));
  uniform_(bias, -bound, bound);
}

void mention(std::string& text, const char* name, std::int64_t value, std::int64_t usual) {
  if (value != usual) text += concat(", ", name, ' ', value);
}

template <class Options>
std::string describe_layer(const char* name, std::int64_t in_channels, std::int64_t out_channels,
                           const Options& options) {
  std::string text =
      concat(name, '(', in_channels, ", ", out_channels, ", kernel ", options.kernel);
  mention(text, "stride", options.stride, 1);
  mention(text, "padding", options.padding, 0);
  if constexpr (requires { options.output_padding; })
    mention(text, "output_padding", options.output_padding, 0);
  mention(text, "dilation", options.dilation, 1);
  mention(text, "groups", options.groups, 1);
  return text + (options.bias ? ")" : ", no bias)");
}

}  // namespace

// -- Conv2d ---------------------------------------------------------------------------------------

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options,
               Where where)
    : options_(options) {
  check_layer("Conv2d", in_channels, out_channels, options, where);
  weight = parameter("weight", empty({out_channels, in_channels / options.groups, options.kernel,
                                      options.kernel}));
  if (options.bias) bias = parameter("bias", empty({out_channels}));
  initialise(weight, bias);
}

Tensor Conv2d::forward(const Tensor& x, Where at) {
  const ringrad::Conv2dOptions options{.stride = {options_.stride, options_.stride},
                                       .padding = {options_.padding, options_.padding},
                                       .dilation = {options_.dilation, options_.dilation},
                                       .groups = options_.groups};
  return conv2d(x, weight, bias, options, at);
}

std::string Conv2d::describe() const {
  return describe_layer("Conv2d", weight.shape()[1] * options_.groups, weight.shape()[0], options_);
}

// -- Conv1d ---------------------------------------------------------------------------------------

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Conv2dOptions& options,
               Where where)
    : options_(options) {
  check_layer("Conv1d", in_channels, out_channels, options, where);
  weight = parameter("weight", empty({out_channels, in_channels / options.groups, options.kernel}));
  if (options.bias) bias = parameter("bias", empty({out_channels}));
  initialise(weight, bias);
}

Tensor Conv1d::forward(const Tensor& x, Where at) {
  return conv1d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups},
                at);
}

std::string Conv1d::describe() const {
  return describe_layer("Conv1d", weight.shape()[1] * options_.groups, weight.shape()[0], options_);
}

// -- ConvTranspose2d ------------------------------------------------------------------------------

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 const ConvTransposeOptions& options, Where where)
    : options_(options) {
  check_layer("ConvTranspose2d", in_channels, out_channels, options, where);
  weight = parameter("weight", empty({in_channels, out_channels / options.groups, options.kernel,
                                      options.kernel}));
  if (options.bias) bias = parameter("bias", empty({out_channels}));
  initialise(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& x, Where at) {
  return conv_transpose2d(x, weight, bias,
                          {.stride = {options_.stride, options_.stride},
                           .padding = {options_.padding, options_.padding},
                           .output_padding = {options_.output_padding, options_.output_padding},
                           .dilation = {options_.dilation, options_.dilation},
                           .groups = options_.groups},
                          at);
}

std::string ConvTranspose2d::describe() const {
  return describe_layer("ConvTranspose2d", weight.shape()[0], weight.shape()[1] * options_.groups,
                        options_);
}

// -- ConvTranspose1d ------------------------------------------------------------------------------

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels,
                                 const ConvTransposeOptions& options, Where where)
    : options_(options) {
  check_layer("ConvTranspose1d", in_channels, out_channels, options, where);
  weight = parameter("weight", empty({in_channels, out_channels / options.groups, options.kernel}));
  if (options.bias) bias = parameter("bias", empty({out_channels}));
  initialise(weight, bias);
}

Tensor ConvTranspose1d::forward(const Tensor& x, Where at) {
  return conv_transpose1d(x, weight, bias,
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .output_padding = options_.output_padding,
                           .dilation = options_.dilation,
                           .groups = options_.groups},
                          at);
}

std::string ConvTranspose1d::describe() const {
  return describe_layer("ConvTranspose1d", weight.shape()[0], weight.shape()[1] * options_.groups,
                        options_);
}

}  // namespace ringrad::nn
