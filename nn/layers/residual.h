// The building blocks of residual networks: layers, a shortcut beside them, and ReLU over the sum.
//
//     ResidualBlock
//     x -> conv 3x3 -> BN -> ReLU -> conv 3x3 -> BN -(+)-> ReLU ->
//      \-------- identity, or conv 1x1 -> BN ---------/
//
//     Bottleneck
//     x -> conv 1x1 -> BN -> ReLU -> conv 3x3 -> BN -> ReLU -> conv 1x1 -> BN -(+)-> ReLU ->
//      \-------------------- identity, or conv 1x1 -> BN ----------------------/
//
// The shortcut is the identity where shapes allow it, else a 1x1 convolution of the same stride.
// The last batch norm also computes the sum and ReLU.
// Paper: He, Zhang, Ren, Sun 2015, arXiv:1512.03385

#pragma once

#include <vector>

#include "ringrad/nn/layers/batch_norm.h"
#include "ringrad/nn/layers/convolution.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// The common part of both blocks, which differ in their layers.
///
/// Children:  conv1, bn1, conv2, bn2 ...; downsample.0 and downsample.1, a convolution and its
///            norm, unless the shortcut is the identity: torchvision's names
class Residual : public Module {
 public:
  Tensor forward(const Tensor& x, Where at = Where::current()) override;

 protected:
  /// Appends a convolution without bias, and its norm.
  void add_layer(std::int64_t in_channels, std::int64_t out_channels, ConvLayerOptions<2> options,
                 Where where);
  /// REQUIRES: called once, after the layers
  void add_shortcut(std::int64_t in_channels, std::int64_t out_channels, std::int64_t stride,
                    Where where);

 private:
  struct Layer {
    Conv2d* conv;
    BatchNorm2d* norm;
  };
  Layer make_layer(const std::string& conv, const std::string& norm, std::int64_t in_channels,
                   std::int64_t out_channels, ConvLayerOptions<2> options, Where where);

  std::vector<Layer> layers_;
  Layer shortcut_{nullptr, nullptr};  // null: the identity
};

/// Shapes: (B, in_channels, H, W)  ->  (B, channels, H / stride, W / stride), rounded up
class ResidualBlock : public Residual {
 public:
  static constexpr std::int64_t kExpansion = 1;

  ResidualBlock(std::int64_t in_channels, std::int64_t channels, std::int64_t stride = 1,
                Where where = Where::current());
};

/// `channels` in the middle, four times as many at the end. The 3x3 convolution has the stride, as
/// in torchvision ("v1.5"). In the paper the first 1x1 convolution had it, which ignores three of
/// four pixels.
///
/// Shapes: (B, in_channels, H, W)  ->  (B, 4 * channels, H / stride, W / stride), rounded up
class Bottleneck : public Residual {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in_channels, std::int64_t channels, std::int64_t stride = 1,
             Where where = Where::current());
};

}  // namespace ringrad::nn
