// The numbers that describe a convolution; convolution.h says what they mean.

#pragma once

#include <array>
#include <cstdint>

namespace ringrad {

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride = {1, 1};    ///< vertical, horizontal
  std::array<std::int64_t, 2> padding = {0, 0};   ///< zeros on either side
  std::array<std::int64_t, 2> dilation = {1, 1};  ///< distance between taps
  std::int64_t groups = 1;  ///< output channels of a group see that group's input channels only

  bool operator==(const Conv2dOptions&) const = default;
};

namespace kernels {

/// All extents of one convolution, checked.
struct ConvolutionGeometry {
  std::int64_t B, C, H, W, K, P, Q, R, S;
  Conv2dOptions options;

  std::int64_t group_inputs() const { return C / options.groups; }
  std::int64_t group_outputs() const { return K / options.groups; }
};

}  // namespace kernels
}  // namespace ringrad
