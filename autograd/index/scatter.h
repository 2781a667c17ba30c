// Results in which some elements of a tensor are replaced or added to, by index. scatter_add, the
// gradient of gather, is in gather.h; assign(), which writes in place, is in methods/in_place.h.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// y = x, then y[i, index[i, j, k], k] = src[i, j, k]                     for axis 1 of three
///
/// Elements of src that index does not cover are ignored. If several elements go to one place, the
/// last one, with the largest j, stays; only that element gets the gradient.
///
/// Shapes:  as scatter_add
/// DTypes:  x and src of one dtype, any; index int32 or int64
/// Saves:   index
/// Throws:  IndexError for an index outside x's axis; ShapeError, DTypeError, DeviceError
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
               Where where = Where::current());
/// The same with one value for all places.
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, Scalar value,
               Where where = Where::current());

/// y = x, then y[.., index[i], ..] += alpha src[.., i, ..]. The sum over src is taken first, in an
/// order that index alone decides.
///
/// Shapes:  x (.., N, ..), index (I), src (.., I, ..)  ->  like x
/// DTypes:  x and src of one floating dtype; index int32 or int64
/// Saves:   index
/// Throws:  as scatter
Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                 Scalar alpha = 1, Where where = Where::current());

/// y = x, then y[.., index[i], ..] = value. Negative indices count from the end.
///
/// Shapes:  x (.., N, ..), index (I)  ->  like x; value ()
/// DTypes:  x and value of one dtype, any; index int32 or int64
/// Saves:   the places
/// Throws:  IndexError for an index outside [-N, N); ShapeError, DTypeError, DeviceError
Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& value,
                  Where where = Where::current());
Tensor index_fill(const Tensor& x, std::int64_t axis, const Tensor& index, Scalar value,
                  Where where = Where::current());

}  // namespace ringrad
