// Views without history: the same memory with another shape. autograd/movement.h has the
// differentiable operators of the same names; kernels and the tape use these views.
//
// Each function returns a new tensor object that shares the storage, and with it the version
// counter. The result never requires a gradient.

#pragma once

#include <limits>
#include <optional>

#include "ringrad/core/tensor.h"

namespace ringrad::view {

/// The same tensor without history.
Tensor alias(const Tensor& x, Where where = Where::current());

/// Any shape and strides inside the storage. REQUIRES: every element lies inside the storage
Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset,
                  Where where = Where::current());

/// The strides that give x's memory `shape` with the same row-major order of elements, if they
/// exist.
/// REQUIRES: shape.numel() == x.numel()
std::optional<Strides> reshaped_strides(const Tensor& x, const Shape& shape);

/// Shapes:  numel unchanged; one extent may be -1
/// Throws:  ShapeError if the number of elements differs, or if the memory would have to be copied
Tensor reshape(const Tensor& x, const Shape& shape, Where where = Where::current());

/// y's axis i is x's axis order[i]. Throws ShapeError unless order is a permutation of the axes.
Tensor permute(const Tensor& x, const Shape& order, Where where = Where::current());

/// x with two axes exchanged.
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1,
                 Where where = Where::current());

/// Elements start, start + step, ... before `end` of one axis. Negative positions count from the
/// end, and positions are clamped to the axis, as in Python. Throws ShapeError for an absent axis,
/// ValueError unless step > 0.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start,
             std::int64_t end = std::numeric_limits<std::int64_t>::max(), std::int64_t step = 1,
             Where where = Where::current());

/// One position of an axis; the result lacks that axis. Throws IndexError for a position outside
/// the axis.
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index,
              Where where = Where::current());

/// Repeats axes of extent 1, and adds leading axes, with strides of 0. Throws ShapeError if the
/// shapes do not broadcast.
Tensor expand(const Tensor& x, const Shape& shape, Where where = Where::current());

/// Drops the given axes that have extent 1 (default: all such axes); other axes stay.
Tensor squeeze(const Tensor& x, const Shape& axes = {}, Where where = Where::current());

/// Adds an axis of extent 1 at `axis` of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t axis, Where where = Where::current());

}  // namespace ringrad::view
