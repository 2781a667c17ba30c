#include "nn/residual.h"

namespace ringrad::nn {

ResidualBlock::ResidualBlock(std::int64_t in_channels, std::int64_t out_channels,
                             std::int64_t stride, Where where) {
  const Conv2dConfig first{.stride = stride, .padding = 1, .bias = false};
  const Conv2dConfig second{.padding = 1, .bias = false};
  conv1_ = &child("conv1", Conv2d(in_channels, out_channels, first, where));
  norm1_ = &child("norm1", BatchNorm2d(out_channels));
  conv2_ = &child("conv2", Conv2d(out_channels, out_channels, second, where));
  norm2_ = &child("norm2", BatchNorm2d(out_channels));
  if (stride == 1 && in_channels == out_channels) return;
  const Conv2dConfig projection{.kernel = 1, .stride = stride, .bias = false};
  shortcut_conv_ = &child("shortcut_conv", Conv2d(in_channels, out_channels, projection, where));
  shortcut_norm_ = &child("shortcut_norm", BatchNorm2d(out_channels));
}

Tensor ResidualBlock::forward(const Tensor& x, Where where) {
  const Tensor main =
      conv2_->forward(norm1_->forward_relu(conv1_->forward(x, where), where), where);
  const Tensor shortcut =
      shortcut_conv_ ? shortcut_norm_->forward(shortcut_conv_->forward(x, where), where) : x;
  return norm2_->forward_add_relu(main, shortcut, where);
}

}  // namespace ringrad::nn
