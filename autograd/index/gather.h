// Elements addressed one by one along an axis; kernels/index/gather.h explains the shapes.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// y[i, j, k] = x[i, index[i, j, k], k]                                   for axis 1 of three
///
/// Shapes:  index no longer than x along every axis except `axis`  ->  like index
/// DTypes:  x every dtype; index int32 or int64
/// Saves:   index
/// Throws:  IndexError for an index outside x's axis; ShapeError, DTypeError, DeviceError
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index,
              Where where = Where::current());

/// y = x, then y[i, index[i, j, k], k] += src[i, j, k]                    for axis 1 of three
///
/// Elements of src that index does not cover are ignored.
///
/// Shapes:  index no longer than src along every axis, and than x along every axis except `axis`
///          ->  like x
/// DTypes:  x and src of one floating dtype; index int32 or int64
/// Saves:   index
/// Throws:  as gather
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                   Where where = Where::current());

}  // namespace ringrad
