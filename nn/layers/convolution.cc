#include "ringrad/nn/layers/convolution.h"

#include <algorithm>
#include <cmath>

#include "ringrad/autograd/grad_mode.h"
#include "ringrad/nn/init.h"

namespace ringrad::nn {
namespace {

template <std::size_t N>
void mention(std::string& text, const char* name, const PerAxis<N>& value, std::int64_t usual) {
  if (value != PerAxis<N>(usual)) text += concat(", ", name, ' ', value);
}

}  // namespace

template <std::size_t N, class Options>
std::string Filters<N, Options>::layer_name() {
  return concat(kTransposed ? "ConvTranspose" : "Conv", N, 'd');
}

template <std::size_t N, class Options>
Filters<N, Options>::Filters(std::int64_t in_channels, std::int64_t out_channels,
                             const Options& options, Where where)
    : in_channels_(in_channels), out_channels_(out_channels), options_(options) {
  const std::int64_t groups = options.groups;
  RINGRAD_CHECK(in_channels > 0 && out_channels > 0 && std::ranges::min(options.kernel) > 0 &&
                    groups > 0 && in_channels % groups == 0 && out_channels % groups == 0,
                ValueError, where, layer_name(),
                ": channels and kernel must be positive and groups must divide the channels; got ",
                in_channels, " to ", out_channels, " channels, kernel ", options.kernel,
                ", groups ", groups);
  Shape shape = kTransposed ? Shape{in_channels, out_channels / groups}
                            : Shape{out_channels, in_channels / groups};
  for (const std::int64_t extent : options.kernel) shape.push_back(extent);
  weight = parameter("weight", empty(shape));
  kaiming_uniform_(weight, std::sqrt(5.0));
  if (!options.bias) return;
  bias = parameter("bias", empty({out_channels}));
  const double bound = 1 / std::sqrt(static_cast<double>(fans_of(shape).in));
  const NoGradGuard guard;
  uniform_(bias, -bound, bound);
}

template <std::size_t N, class Options>
std::string Filters<N, Options>::describe() const {
  std::string text =
      concat(layer_name(), '(', in_channels_, ", ", out_channels_, ", kernel ", options_.kernel);
  mention(text, "stride", options_.stride, 1);
  mention(text, "padding", options_.padding, 0);
  if constexpr (kTransposed) mention(text, "output_padding", options_.output_padding, 0);
  mention(text, "dilation", options_.dilation, 1);
  if (options_.groups != 1) text += concat(", groups ", options_.groups);
  return text + (options_.bias ? ")" : ", no bias)");
}

template <std::size_t N>
Tensor Conv<N>::forward(const Tensor& x, Where at) {
  const auto& o = this->options_;
  const ConvOptions<N> options{o.stride, o.padding, o.dilation, o.groups};
  if constexpr (N == 1)
    return conv1d(x, this->weight, this->bias, options, at);
  else if constexpr (N == 2)
    return conv2d(x, this->weight, this->bias, options, at);
  else
    return conv3d(x, this->weight, this->bias, options, at);
}

template <std::size_t N>
Tensor ConvTranspose<N>::forward(const Tensor& x, Where at) {
  const auto& o = this->options_;
  const ConvTransposeOptions<N> options{o.stride, o.padding, o.output_padding, o.dilation,
                                        o.groups};
  if constexpr (N == 1)
    return conv_transpose1d(x, this->weight, this->bias, options, at);
  else if constexpr (N == 2)
    return conv_transpose2d(x, this->weight, this->bias, options, at);
  else
    return conv_transpose3d(x, this->weight, this->bias, options, at);
}

#define RINGRAD_INSTANTIATE(N)                             \
  template class Filters<N, ConvLayerOptions<N>>;          \
  template class Filters<N, ConvTransposeLayerOptions<N>>; \
  template class Conv<N>;                                  \
  template class ConvTranspose<N>;
RINGRAD_INSTANTIATE(1)
RINGRAD_INSTANTIATE(2)
RINGRAD_INSTANTIATE(3)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::nn
