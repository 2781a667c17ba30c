// Views without history: the same memory under another shape. The differentiable operators of the
// same names are in autograd/movement.h; kernels and the tape use these.
//
// Each returns a new tensor object that shares the storage, and with it the version counter. None
// requires a gradient.

#pragma once

#include <limits>
#include <optional>

#include "core/tensor.h"

namespace ringrad::view {

/// The same tensor without history.
Tensor alias(const Tensor& x, Where where = Where::current());

/// Any shape and strides inside of the storage. REQUIRES: every element lies inside of it.
Tensor as_strided(const Tensor& x, const Shape& shape, const Strides& strides, std::int64_t offset,
                  Where where = Where::current());

/// The strides under which x's memory has `shape` in row-major order of elements, if there are any.
/// REQUIRES: shape.numel() == x.numel()
std::optional<Strides> reshaped_strides(const Tensor& x, const Shape& shape);

/// Shapes:  numel unchanged; one extent may be -1
/// Throws:  ShapeError if the number of elements differs, or the memory would have to be copied
Tensor reshape(const Tensor& x, const Shape& shape, Where where = Where::current());

/// y's axis i is x's axis order[i]. Throws ShapeError unless order is a permutation of the axes.
Tensor permute(const Tensor& x, const Shape& order, Where where = Where::current());

Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1,
                 Where where = Where::current());

/// Elements start, start + step, ... below end of one axis; negative positions count from the end,
/// and positions are clamped to the axis as in Python. Throws ShapeError for an absent axis,
/// ValueError unless step > 0.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start,
             std::int64_t end = std::numeric_limits<std::int64_t>::max(), std::int64_t step = 1,
             Where where = Where::current());

/// One position of an axis, which disappears. Throws IndexError outside of it.
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index,
              Where where = Where::current());

/// Repeats axes of extent 1, and adds leading axes, by strides of 0. Throws ShapeError if shapes do
/// not broadcast.
Tensor expand(const Tensor& x, const Shape& shape, Where where = Where::current());

/// Drops the given axes of extent 1, or all of them; an axis of another extent stays.
Tensor squeeze(const Tensor& x, const Shape& axes = {}, Where where = Where::current());

/// Adds an axis of extent 1 at `axis` of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t axis, Where where = Where::current());

}  // namespace ringrad::view
