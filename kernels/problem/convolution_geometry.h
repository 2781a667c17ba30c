// The numbers that describe a convolution; convolution.h says what they mean.

#pragma once

#include <array>
#include <cstdint>

namespace ringrad {

struct Conv1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;   ///< zeros on either side
  std::int64_t dilation = 1;  ///< distance between taps
  std::int64_t groups = 1;    ///< output channels of a group see that group's input channels only

  bool operator==(const Conv1dOptions&) const = default;
};

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride = {1, 1};    ///< vertical, horizontal
  std::array<std::int64_t, 2> padding = {0, 0};   ///< zeros on either side
  std::array<std::int64_t, 2> dilation = {1, 1};  ///< distance between taps
  std::int64_t groups = 1;  ///< output channels of a group see that group's input channels only

  bool operator==(const Conv2dOptions&) const = default;
};

struct Conv3dOptions {
  std::array<std::int64_t, 3> stride = {1, 1, 1};    ///< along depth, vertical, horizontal
  std::array<std::int64_t, 3> padding = {0, 0, 0};   ///< zeros on either side
  std::array<std::int64_t, 3> dilation = {1, 1, 1};  ///< distance between taps
  std::int64_t groups = 1;  ///< output channels of a group see that group's input channels only

  bool operator==(const Conv3dOptions&) const = default;
};

namespace kernels {

/// The options of a convolution over any number of axes. Inside, all are volumes: an image is a
/// volume of one plane, and a sequence is an image of one row.
struct ConvolutionOptions {
  ConvolutionOptions(const Conv1dOptions& o)
      : rank(1),
        stride{1, 1, o.stride},
        padding{0, 0, o.padding},
        dilation{1, 1, o.dilation},
        groups(o.groups) {}
  ConvolutionOptions(const Conv2dOptions& o)
      : rank(2),
        stride{1, o.stride[0], o.stride[1]},
        padding{0, o.padding[0], o.padding[1]},
        dilation{1, o.dilation[0], o.dilation[1]},
        groups(o.groups) {}
  ConvolutionOptions(const Conv3dOptions& o)
      : rank(3), stride(o.stride), padding(o.padding), dilation(o.dilation), groups(o.groups) {}

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
