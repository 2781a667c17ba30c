// Pooling over the two last axes of (B, C, H, W): the largest or the mean value of each window.
//
// A pooling is two lists of windows, one per axis. `Pool2dOptions` defines sliding windows. An
// output size defines adaptive ones, which split the axis into that many nearly equal parts (they
// may overlap by one):
//
//     window i of O over H:    [floor(i * H / O), ceil((i + 1) * H / O))
//
// Max pooling stores for each output the place of the winner in its window: r * width + s for row r
// and column s of the window. A place takes one byte if a window has at most 256 places. The
// gradient needs nothing else.
//
// Results keep the input's memory order (contiguous or channels_last).
// Extents: B batch, C channels, H W input pixels, P Q output pixels.

#pragma once

#include "ringrad/core/base/per_axis.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// The options of windows that slide along N axes.
template <std::size_t N>
struct PoolOptions {
  PerAxis<N> kernel = 2;          ///< window extents
  PerAxis<N> stride = 0;          ///< distance between windows; 0: the kernel's extent
  PerAxis<N> padding = 0;         ///< at most half of the kernel
  bool count_include_pad = true;  ///< means divide by the padded window, not by its part in x
};
using Pool1dOptions = PoolOptions<1>;
using Pool2dOptions = PoolOptions<2>;
using Pool3dOptions = PoolOptions<3>;

namespace kernels {

/// Checks the windows along one axis. Throws: ValueError unless kernel > 0, stride >= 0 and
/// 0 <= padding <= kernel / 2; ShapeError unless a window fits into the padded axis
void check_pool_windows(const char* operation, std::int64_t extent, std::int64_t kernel,
                        std::int64_t stride, std::int64_t padding, Where where);

struct MaxPool2dResult {
  Tensor output;  ///< (B, C, P, Q)
  Tensor places;  ///< (B, C, P, Q), uint8 or int32: the winner's place in each window
};

/// P = (H + 2 * padding - kernel) / stride + 1, rounded down; Q likewise. The first of equal values
/// wins; a NaN beats all numbers.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, P, Q)
/// DTypes:  every floating dtype
/// Throws:  ShapeError unless x has four axes and the kernel fits; ValueError unless kernel > 0,
///          stride >= 0 and 0 <= padding <= kernel / 2; DTypeError
MaxPool2dResult max_pool2d(const Tensor& x, const Pool2dOptions& options,
                           Where where = Where::current());

/// Adds each output's gradient to the input that it came from.
///
/// Shapes:  grad_output, places (B, C, P, Q)  ->  input_shape (B, C, H, W)
Tensor max_pool2d_backward(const Tensor& grad_output, const Tensor& places,
                           const Shape& input_shape, const Pool2dOptions& options,
                           Where where = Where::current());

/// The winning inputs: y[b, c, p, q] = x[b, c, place]. The gradient of max_pool2d_backward.
///
/// Shapes:  x (B, C, H, W), places (B, C, P, Q)  ->  (B, C, P, Q)
Tensor max_pool2d_gather(const Tensor& x, const Tensor& places, const Pool2dOptions& options,
                         Where where = Where::current());

/// Means of sliding windows. Shapes, DTypes, Throws: as max_pool2d.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options, Where where = Where::current());

/// Spreads each output's gradient evenly over its window.
Tensor avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape,
                           const Pool2dOptions& options, Where where = Where::current());

/// Means of adaptive windows: maps any input size to one output size.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, output_size[0], output_size[1])
/// Throws:  ValueError unless the output size is positive
Tensor adaptive_avg_pool2d(const Tensor& x, PerAxis<2> output_size, Where where = Where::current());

Tensor adaptive_avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape,
                                    Where where = Where::current());

}  // namespace kernels
}  // namespace ringrad
