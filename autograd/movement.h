// Operators that move elements and compute nothing: views, copies, conversions, joining, cutting.
//
//     x (2, 3, 4)    reshape(x, {6, 4})        (6, 4)       slice(x, 2, 1, 3)    (2, 3, 2)
//                    permute(x, {2, 0, 1})     (4, 2, 3)    select(x, 1, -1)     (2, 4)
//
// All are linear, so the gradient of each is composed of others, and they can be differentiated any
// number of times.
//
// A view shares x's memory: nothing is copied, and a change in place of one is a change of both.
// reshape and flatten are views where strides can express the result, and copies elsewhere. What
// returns x itself where there is nothing to do says so. Axes may be negative and then count from
// the end. Repeating elements (expand) is in broadcast.h.

#pragma once

#include <limits>
#include <span>
#include <vector>

#include "autograd/broadcast.h"
#include "core/tensor.h"

namespace ringrad {

// -- Views --------------------------------------------------------------------------------------

/// The same elements, in row-major order, under another shape; x itself if it has that shape.
///
/// Shapes:  as many elements as x; one extent may be -1
/// Throws:  ShapeError if the number of elements differs
Tensor reshape(const Tensor& x, const Shape& shape, Where where = Where::current());

/// Axes first to last become one. Throws ShapeError for an absent axis, or unless first <= last.
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1,
               Where where = Where::current());

/// Axis i of the result is x's axis order[i]. Throws ShapeError unless order is a permutation of
/// the axes.
Tensor permute(const Tensor& x, const Shape& order, Where where = Where::current());

/// The two axes exchanged.
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1,
                 Where where = Where::current());

/// Elements start, start + step, ... below end of one axis; negative positions count from the end,
/// and positions are clamped to the axis as in Python. Throws ShapeError for an absent axis,
/// ValueError unless step > 0.
Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start,
             std::int64_t end = std::numeric_limits<std::int64_t>::max(), std::int64_t step = 1,
             Where where = Where::current());

/// One position of an axis, which disappears. Throws ShapeError for an absent axis, IndexError for
/// an absent position.
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index,
              Where where = Where::current());

/// Drops the given axes of extent 1, or all of them; an axis of another extent stays.
Tensor squeeze(const Tensor& x, const Shape& axes = {}, Where where = Where::current());

/// Adds an axis of extent 1 at `axis` of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t axis, Where where = Where::current());

/// Pieces of `size` along an axis; the last one may be shorter. Of an axis without elements, one
/// empty piece.
/// Throws:  ShapeError for an absent axis, ValueError unless size > 0
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0,
                          Where where = Where::current());

/// Pieces of the given sizes along an axis.
/// Throws:  ShapeError for an absent axis, or unless the sizes are counts and add up to its extent
std::vector<Tensor> split_sizes(const Tensor& x, std::span<const std::int64_t> sizes,
                                std::int64_t axis = 0, Where where = Where::current());

/// At most `count` pieces of one size, but for the last, which may be shorter.
/// Throws:  ShapeError for an absent axis, ValueError unless count > 0
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0,
                          Where where = Where::current());

// -- Copies -------------------------------------------------------------------------------------

/// A copy in fresh memory, in the same order of axes if x is dense.
Tensor clone(const Tensor& x, Where where = Where::current());

/// x itself if it is contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& x, Where where = Where::current());

/// x itself if its memory has this layout already, else a copy that has it.
/// Throws:  ShapeError for channels_last unless x is (B, C, H, W)
Tensor to_layout(const Tensor& x, Layout layout, Where where = Where::current());

/// x itself if it has this dtype, else a copy converted as C++ converts; no gradient passes through
/// integers.
Tensor to(const Tensor& x, DType dtype, Where where = Where::current());

/// x itself if it is on this device, else a copy there; the gradient comes back. Between GPUs no host waits, and
/// either GPU waits for the copy only (core/transfer.h).
Tensor to(const Tensor& x, Device device, Where where = Where::current());

// -- Joining ------------------------------------------------------------------------------------

/// y = [x0 | x1 | ...] along an axis that all have; channels_last if all of them are, else
/// contiguous.
///
/// Shapes:  equal but for `axis`, where they add up
/// DTypes:  all, the same for each
/// Throws:  ValueError for an empty list; ShapeError if shapes differ elsewhere, or for an absent
///          axis; DTypeError, DeviceError
Tensor concatenate(std::span<const Tensor> list, std::int64_t axis = 0,
                   Where where = Where::current());
Tensor concatenate(std::initializer_list<Tensor> list, std::int64_t axis = 0,
                   Where where = Where::current());

/// The same along a new axis at `axis` of the result, for tensors of one shape.
Tensor stack(std::span<const Tensor> list, std::int64_t axis = 0, Where where = Where::current());
Tensor stack(std::initializer_list<Tensor> list, std::int64_t axis = 0,
             Where where = Where::current());

}  // namespace ringrad
