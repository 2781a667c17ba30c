#include "ringrad/nn/layers/convolution.h"

#include <cmath>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/nn/init.h"
#include "ringrad/nn/layers/every_axis.h"

namespace ringrad::nn {
namespace {

void mention(std::string& text, const char* name, std::int64_t value, std::int64_t usual) {
  if (value != usual) text += concat(", ", name, ' ', value);
}

}  // namespace

Convolution::Convolution(const char* name, int axes, std::int64_t in_channels,
                         std::int64_t out_channels, const Conv2dOptions& options, Where where)
    : name_(name),
      in_channels_(in_channels),
      out_channels_(out_channels),
      options_{.kernel = options.kernel,
               .stride = options.stride,
               .padding = options.padding,
               .dilation = options.dilation,
               .groups = options.groups,
               .bias = options.bias} {
  make_parameters(axes, out_channels, in_channels, where);
}

Convolution::Convolution(const char* name, int axes, std::int64_t in_channels,
                         std::int64_t out_channels, const ConvTransposeOptions& options,
                         Where where)
    : name_(name), in_channels_(in_channels), out_channels_(out_channels), options_(options) {
  make_parameters(axes, in_channels, out_channels, where);
}

void Convolution::make_parameters(int axes, std::int64_t first_channels,
                                  std::int64_t second_channels, Where where) {
  const std::int64_t kernel = options_.kernel, groups = options_.groups;
  RINGRAD_CHECK(in_channels_ > 0 && out_channels_ > 0 && kernel > 0 && groups > 0 &&
                    in_channels_ % groups == 0 && out_channels_ % groups == 0,
                ValueError, where, name_,
                ": channels and kernel must be positive and groups must divide the channels; got ",
                in_channels_, " to ", out_channels_, " channels, kernel ", kernel, ", groups ",
                groups);
  Shape shape{first_channels, second_channels / groups};
  for (int axis = 0; axis < axes; ++axis) shape.push_back(kernel);
  weight = parameter("weight", empty(shape));
  kaiming_uniform_(weight, std::sqrt(5.0));
  if (!options_.bias) return;
  bias = parameter("bias", empty({out_channels_}));
  const double bound = 1 / std::sqrt(static_cast<double>(fans_of(shape).in));
  const NoGradGuard guard;
  uniform_(bias, -bound, bound);
}

std::string Convolution::describe() const {
  std::string text =
      concat(name_, '(', in_channels_, ", ", out_channels_, ", kernel ", options_.kernel);
  mention(text, "stride", options_.stride, 1);
  mention(text, "padding", options_.padding, 0);
  mention(text, "output_padding", options_.output_padding, 0);
  mention(text, "dilation", options_.dilation, 1);
  mention(text, "groups", options_.groups, 1);
  return text + (options_.bias ? ")" : ", no bias)");
}

template <class Options>
Options Convolution::options_of() const {
  Options options{.stride = EveryAxis{options_.stride},
                  .padding = EveryAxis{options_.padding},
                  .dilation = EveryAxis{options_.dilation},
                  .groups = options_.groups};
  if constexpr (requires { options.output_padding; })
    options.output_padding = EveryAxis{options_.output_padding};
  return options;
}

Tensor Conv1d::forward(const Tensor& x, Where at) {
  return conv1d(x, weight, bias, options_of<ringrad::Conv1dOptions>(), at);
}

Tensor Conv2d::forward(const Tensor& x, Where at) {
  return conv2d(x, weight, bias, options_of<ringrad::Conv2dOptions>(), at);
}

Tensor Conv3d::forward(const Tensor& x, Where at) {
  return conv3d(x, weight, bias, options_of<ringrad::Conv3dOptions>(), at);
}

Tensor ConvTranspose1d::forward(const Tensor& x, Where at) {
  return conv_transpose1d(x, weight, bias, options_of<ConvTranspose1dOptions>(), at);
}

Tensor ConvTranspose2d::forward(const Tensor& x, Where at) {
  return conv_transpose2d(x, weight, bias, options_of<ConvTranspose2dOptions>(), at);
}

Tensor ConvTranspose3d::forward(const Tensor& x, Where at) {
  return conv_transpose3d(x, weight, bias, options_of<ConvTranspose3dOptions>(), at);
}

}  // namespace ringrad::nn
