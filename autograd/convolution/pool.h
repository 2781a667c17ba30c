// Pooling over the two last axes of (B, C, H, W), or the last of (B, C, L); kernels/pool/pool.h
// defines the windows.

#pragma once

#include <array>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/pool/pool.h"

namespace ringrad {

struct Pool1dOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;        ///< distance between windows
  std::int64_t padding = 0;       ///< at most half of the kernel
  bool count_include_pad = true;  ///< means divide by the padded window, not by its part in x
};

/// The largest value of each window; the gradient goes to the first place that holds it.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, P, Q)
/// DTypes:  every floating dtype
/// Saves:   one byte per output, the place of the maximum in its window; four bytes for windows of
///          more than 256 places
/// Throws:  ShapeError, DTypeError, ValueError
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {},
                  Where where = Where::current());

/// The mean of each window.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, P, Q)
/// DTypes:  every floating dtype
/// Throws:  ShapeError, DTypeError, ValueError
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {},
                  Where where = Where::current());

/// The same over one axis, as an image of one row.
///
/// Shapes:  x (B, C, L)  ->  (B, C, T)
Tensor max_pool1d(const Tensor& x, const Pool1dOptions& options = {},
                  Where where = Where::current());
Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& options = {},
                  Where where = Where::current());

/// The mean of windows that divide an input of any size into the given output size.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, output_size[0], output_size[1])
/// Throws:  ShapeError, DTypeError, ValueError
Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> output_size,
                           Where where = Where::current());

}  // namespace ringrad
