// ResidualBlock: the building block of residual networks,
//
//     x ---> conv 3x3 ---> BN ---> ReLU ---> conv 3x3 ---> BN ---(+)---> ReLU --->
//       \------------ identity, or conv 1x1 ---> BN -------------/
//
// The shortcut is the identity where shapes allow it, else a 1x1 convolution of the same stride.
// Paper: He, Zhang, Ren, Sun 2015, arXiv:1512.03385

#pragma once

#include "nn/batch_norm.h"
#include "nn/convolution.h"
#include "nn/module.h"

namespace ringrad::nn {

/// Shapes: (B, in_channels, H, W)  ->  (B, out_channels, H / stride, W / stride), rounded up
class ResidualBlock : public Module {
 public:
  ResidualBlock(std::int64_t in_channels, std::int64_t out_channels, std::int64_t stride = 1,
                Where where = Where::current());

  Tensor forward(const Tensor& x, Where where = Where::current()) override;
  std::string describe() const override { return "ResidualBlock"; }

 private:
  Conv2d* conv1_;
  BatchNorm2d* norm1_;
  Conv2d* conv2_;
  BatchNorm2d* norm2_;
  Conv2d* shortcut_conv_ = nullptr;  // null: the shortcut is the identity
  BatchNorm2d* shortcut_norm_ = nullptr;
};

}  // namespace ringrad::nn
