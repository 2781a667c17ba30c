#include "ringrad/nn/layers/residual.h"

#include "ringrad/autograd/elementwise.h"

namespace ringrad::nn {

Residual::Layer Residual::make_layer(const std::string& conv, const std::string& norm,
                                     std::int64_t in_channels, std::int64_t out_channels,
                                     ConvLayerOptions<2> options, Where where) {
  options.bias = false;  // the norm would subtract it again
  Conv2d& convolution = child(conv, Conv2d(in_channels, out_channels, options, where));
  return {&convolution, &child(norm, BatchNorm2d(out_channels))};
}

void Residual::add_layer(std::int64_t in_channels, std::int64_t out_channels,
                         ConvLayerOptions<2> options, Where where) {
  const std::string number = std::to_string(layers_.size() + 1);
  layers_.push_back(
      make_layer("conv" + number, "bn" + number, in_channels, out_channels, options, where));
}

void Residual::add_shortcut(std::int64_t in_channels, std::int64_t out_channels,
                            std::int64_t stride, Where where) {
  if (stride == 1 && in_channels == out_channels) return;
  shortcut_ = make_layer("downsample.0", "downsample.1", in_channels, out_channels,
                         {.kernel = 1, .stride = stride}, where);
}

Tensor Residual::forward(const Tensor& x, Where at) {
  Tensor y = x;
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    const auto& [conv, norm] = layers_[i];
    y = (*conv)(y, at);
    if (norm->has_hooks()) {
      y = relu((*norm)(y, at), at);
      continue;
    }
    const TraceSpan span(norm->trace_name(), "layer");
    y = norm->forward_relu(y, at);
  }
  const auto& [last_conv, last_norm] = layers_.back();
  y = (*last_conv)(y, at);
  const Tensor shortcut = shortcut_.conv ? (*shortcut_.norm)((*shortcut_.conv)(x, at), at) : x;
  if (last_norm->has_hooks()) return relu(add((*last_norm)(y, at), shortcut, at), at);
  const TraceSpan span(last_norm->trace_name(), "layer");
  return last_norm->forward_add_relu(y, shortcut, at);
}

ResidualBlock::ResidualBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
                             Where where) {
  add_layer(in_channels, channels, {.stride = stride, .padding = 1}, where);
  add_layer(channels, channels, {.padding = 1}, where);
  add_shortcut(in_channels, channels, stride, where);
}

Bottleneck::Bottleneck(std::int64_t in_channels, std::int64_t channels, std::int64_t stride,
                       Where where) {
  add_layer(in_channels, channels, {.kernel = 1}, where);
  add_layer(channels, channels, {.stride = stride, .padding = 1}, where);
  add_layer(channels, kExpansion * channels, {.kernel = 1}, where);
  add_shortcut(in_channels, kExpansion * channels, stride, where);
}

}  // namespace ringrad::nn
