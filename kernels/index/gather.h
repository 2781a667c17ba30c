// Gather and scatter: elements addressed one by one along an axis.
//
//     gather         y[i, j, k] = x[i, index[i, j, k], k]                          axis 1 of three
//     scatter_add    y = x, then y[i, index[i, j, k], k] += src[i, j, k]
//     scatter        y = x, then y[i, index[i, j, k], k] = src[i, j, k]
//
// gather and scatter_add are each other's gradients. index has as many axes as the other tensors
// and may be shorter along any of them; only the elements it covers take part. Scattering processes
// each line of the axis in the order of j and splits work by whole lines, or it sorts by target, so
// its result does not depend on the number of threads. If scatter writes several elements to one
// place, the last one stays.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Shapes:  index no longer than x along every axis but `axis`  ->  like index
/// DTypes:  x every dtype; index int32 or int64
/// Throws:  ShapeError, DTypeError, DeviceError; IndexError for an index outside x's axis
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index,
              Where where = Where::current());

/// Shapes:  index no longer than src along every axis, and than x along every axis but `axis`
///          ->  like x
/// DTypes:  x and src of one floating dtype, the 16-bit ones summed in float32; index int32 or
///          int64
/// Throws:  as gather
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
                   Where where = Where::current());

/// The same onto zeros of the given shape.
Tensor scatter_sum(const Shape& shape, std::int64_t axis, const Tensor& index, const Tensor& src,
                   Where where = Where::current());

/// Shapes:  as scatter_add
/// DTypes:  x and src of one dtype, any; index int32 or int64
/// Throws:  as gather
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& src,
               Where where = Where::current());

/// The same into y, which already holds x and has any strides. y and src may overlap in memory: src
/// is read as if before any write.
/// Throws:  ValueError if two elements of y share one place in memory
void scatter_(const Tensor& y, std::int64_t axis, const Tensor& index, const Tensor& src,
              Where where = Where::current());

namespace cpu {

// Returns false, and leaves y incomplete, if an index is outside x's axis.
// REQUIRES: index is contiguous; y is like index
bool gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y);
// REQUIRES: index is contiguous and valid; y already holds x; y and src are float32 or float64
void scatter_add(const Tensor& y, int axis, const Tensor& index, const Tensor& src);
// REQUIRES: index is contiguous and valid; y already holds x; y and src are of one dtype
void scatter(const Tensor& y, int axis, const Tensor& index, const Tensor& src);

}  // namespace cpu

namespace cuda {

// Like their CPU counterparts, except that indices may be out of range: such elements are 0 when
// gathered and are not scattered.

/// REQUIRES: index is contiguous; y is contiguous and like index
void gather(const Tensor& x, int axis, const Tensor& index, const Tensor& y, Where where);

/// REQUIRES: index is contiguous; y already holds x, is dense, and has the dtype in which src is
///           summed
void scatter_add(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Where where);

/// REQUIRES: index is contiguous; y already holds x and has src's dtype
void scatter(const Tensor& y, int axis, const Tensor& index, const Tensor& src, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
