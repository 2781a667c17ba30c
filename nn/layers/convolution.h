// Layers of filters: Conv1d over sequences, Conv2d over images, Conv3d over volumes, and their
// transposes.
//
// Weights and biases start from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), where fan_in is the number of
// elements of weight[0], as in PyTorch.

#pragma once

#include "ringrad/autograd/convolution/convolution.h"
#include "ringrad/nn/module.h"

namespace ringrad::nn {

/// Options of a convolution over N axes: {.kernel = 3, .padding = {0, 1}}.
template <std::size_t N>
struct ConvLayerOptions {
  PerAxis<N> kernel = 3;
  PerAxis<N> stride = 1;
  PerAxis<N> padding = 0;
  PerAxis<N> dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// Options of a transposed convolution.
template <std::size_t N>
struct ConvTransposeLayerOptions {
  PerAxis<N> kernel = 3;
  PerAxis<N> stride = 1;
  PerAxis<N> padding = 0;
  PerAxis<N> output_padding = 0;
  PerAxis<N> dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// The common part of convolution layers.
///
/// Parameters:  weight (out_channels, in_channels / groups, kernel ...), of a transposed
///              convolution (in_channels, out_channels / groups, kernel ...); bias (out_channels)
/// Throws:      ValueError unless the counts are positive and groups divides both channel counts
template <std::size_t N, class Options>
class Filters : public Module {
 public:
  std::string describe() const override;

  Tensor weight;
  Tensor bias;  ///< undefined without bias

 protected:
  Filters(std::int64_t in_channels, std::int64_t out_channels, const Options& options, Where where);

  static constexpr bool kTransposed = requires(Options o) { o.output_padding; };
  static std::string layer_name();

  const std::int64_t in_channels_, out_channels_;
  const Options options_;
};

/// An argument `kernel` replaces that of the options: Conv2d(3, 64, 7, {.stride = 2}).
///
/// Shapes:  (B, in_channels, L), (B, in_channels, H, W) or (B, in_channels, D, H, W)
///          ->  (B, out_channels, T), (B, out_channels, P, Q) or (B, out_channels, Z, P, Q)
template <std::size_t N>
class Conv : public Filters<N, ConvLayerOptions<N>> {
 public:
  Conv(std::int64_t in_channels, std::int64_t out_channels, const ConvLayerOptions<N>& options = {},
       Where where = Where::current())
      : Filters<N, ConvLayerOptions<N>>(in_channels, out_channels, options, where) {}
  Conv(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
       ConvLayerOptions<N> options = {}, Where where = Where::current())
      : Conv(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};
/// Filters over sequences.
using Conv1d = Conv<1>;
/// Filters over images.
using Conv2d = Conv<2>;
/// Filters over volumes.
using Conv3d = Conv<3>;

/// Shapes:  (B, in_channels, T), (B, in_channels, P, Q) or (B, in_channels, Z, P, Q)
///          ->  (B, out_channels, L), (B, out_channels, H, W) or (B, out_channels, D, H, W)
template <std::size_t N>
class ConvTranspose : public Filters<N, ConvTransposeLayerOptions<N>> {
 public:
  ConvTranspose(std::int64_t in_channels, std::int64_t out_channels,
                const ConvTransposeLayerOptions<N>& options = {}, Where where = Where::current())
      : Filters<N, ConvTransposeLayerOptions<N>>(in_channels, out_channels, options, where) {}
  ConvTranspose(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                ConvTransposeLayerOptions<N> options = {}, Where where = Where::current())
      : ConvTranspose(in_channels, out_channels, (options.kernel = kernel, options), where) {}

  Tensor forward(const Tensor& x, Where at = Where::current()) override;
};
/// The transpose of Conv1d.
using ConvTranspose1d = ConvTranspose<1>;
/// The transpose of Conv2d.
using ConvTranspose2d = ConvTranspose<2>;
/// The transpose of Conv3d.
using ConvTranspose3d = ConvTranspose<3>;

}  // namespace ringrad::nn
