// Pooling over the last axes of (B, C, L), (B, C, H, W) or (B, C, D, H, W); kernels/pool/pool.h
// defines the windows.

#pragma once

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

/// The same over one axis, as an image of one row.
///
/// Shapes:  x (B, C, L)  ->  (B, C, T)
Tensor max_pool1d(const Tensor& x, const Pool1dOptions& options = {},
                  Where where = Where::current());
Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& options = {},
                  Where where = Where::current());

/// The same over three axes, in two steps: over the pixels of each plane, and then over the planes.
/// The result has the input's order in memory: contiguous, or the channels last.
///
/// Shapes:  x (B, C, D, H, W)  ->  (B, C, Z, P, Q)
/// Saves:   as max_pool2d, for each step
Tensor max_pool3d(const Tensor& x, const Pool3dOptions& options = {},
                  Where where = Where::current());
Tensor avg_pool3d(const Tensor& x, const Pool3dOptions& options = {},
                  Where where = Where::current());

/// The mean of windows that divide an input of any size into the given output size.
///
/// Shapes:  x (B, C, H, W)  ->  (B, C, output_size[0], output_size[1])
/// Throws:  ShapeError, DTypeError, ValueError
Tensor adaptive_avg_pool2d(const Tensor& x, PerAxis<2> output_size, Where where = Where::current());

}  // namespace ringrad
