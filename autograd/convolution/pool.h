// Pooling over the two last axes of (B, C, H, W); kernels/pool/pool.h defines the windows.

#pragma once

#include <array>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/pool/pool.h"

namespace ringrad {

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

/// The mean of windows that divide an input of any size into the given output size.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, output_size[0], output_size[1])
/// Throws:  ShapeError, DTypeError, ValueError
Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> output_size,
                           Where where = Where::current());

}  // namespace ringrad
