// nonzero: where the elements of a tensor are not 0.
//
//     x (2, 3)    0 7 0        y (2, 2)    0 1
//                 0 0 5                    1 2

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// The coordinates of all elements that are not 0, in row-major order. Waits for the GPU, since the
/// number of these elements is an extent of the result.
///
/// Shapes:  x with D axes  ->  (number of them, D)
/// DTypes:  all; the result is int64. A NaN is not 0.
Tensor nonzero(const Tensor& x, Where where = Where::current());

/// The same elements, as positions in row-major order.
///
/// Shapes:  ->  (number of them)
Tensor nonzero_positions(const Tensor& x, Where where = Where::current());

namespace cuda {

/// Row ends[i] - 1 of `found` = the coordinates in `shape` of element i, for all i with flags[i].
/// REQUIRES: flags is bool, ends its running sum; all are contiguous
void write_nonzero(const Tensor& flags, const Tensor& ends, const Shape& shape, const Tensor& found,
                   Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
