// The numbers that describe a convolution; convolution.h says what they mean.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ringrad/core/base/per_axis.h"

namespace ringrad {

/// The options of a convolution over N axes.
template <std::size_t N>
struct ConvOptions {
  PerAxis<N> stride = 1;
  PerAxis<N> padding = 0;   ///< zeros on either side
  PerAxis<N> dilation = 1;  ///< distance between taps
  std::int64_t groups = 1;  ///< output channels of a group see that group's input channels only

  bool operator==(const ConvOptions&) const = default;
};
using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
using Conv3dOptions = ConvOptions<3>;

namespace kernels {

/// The options of a convolution over any number of axes, stored as those of a volume: an image is a
/// volume of one plane, and a sequence is an image of one row.
struct ConvolutionOptions {
  template <std::size_t N>
  ConvolutionOptions(const ConvOptions<N>& o)
      : rank(N),
        stride(as_volume(o.stride, 1)),
        padding(as_volume(o.padding, 0)),
        dilation(as_volume(o.dilation, 1)),
        groups(o.groups) {}

  /// `numbers` for the last N axes of (D, H, W), and `otherwise` for the axes before them.
  template <std::size_t N>
  static std::array<std::int64_t, 3> as_volume(const PerAxis<N>& numbers, std::int64_t otherwise) {
    std::array<std::int64_t, 3> all = {otherwise, otherwise, otherwise};
    std::copy(numbers.begin(), numbers.end(), all.end() - N);
    return all;
  }

  int rank;  ///< how many axes the filters move along: the last ones of (D, H, W)
  std::array<std::int64_t, 3> stride, padding, dilation;
  std::int64_t groups;
};

/// A convolution and its two gradients.
enum class ConvolutionProduct : std::uint8_t { forward, backward_input, backward_weight };

/// Its name in messages and traces.
constexpr const char* name_of(ConvolutionProduct product, int rank) {
  constexpr const char* kNames[3][3] = {
      {"conv1d", "conv1d_backward_input", "conv1d_backward_weight"},
      {"conv2d", "conv2d_backward_input", "conv2d_backward_weight"},
      {"conv3d", "conv3d_backward_input", "conv3d_backward_weight"}};
  return kNames[rank - 1][static_cast<int>(product)];
}

/// All extents of one convolution, checked.
struct ConvolutionGeometry {
  std::int64_t B, C, D, H, W, K, Z, P, Q, U, R, S;
  ConvolutionOptions options;

  std::int64_t group_inputs() const { return C / options.groups; }
  std::int64_t group_outputs() const { return K / options.groups; }
  std::int64_t pixels_of_x() const { return D * H * W; }  ///< of one volume
  std::int64_t pixels_of_y() const { return Z * P * Q; }
  std::int64_t taps() const { return U * R * S; }

  const char* name(ConvolutionProduct product) const { return name_of(product, options.rank); }
  /// True for images, on which libraries have faster code than on volumes of one plane.
  bool is_flat() const { return D == 1 && Z == 1 && U == 1; }
};

}  // namespace kernels
}  // namespace ringrad
