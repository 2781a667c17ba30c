// Operators that move elements without computing: views, copies, conversions, joining, cutting.
//
//     x (2, 3, 4)    reshape(x, {6, 4})        (6, 4)       slice(x, 2, 1, 3)    (2, 3, 2)
//                    permute(x, {2, 0, 1})     (4, 2, 3)    select(x, 1, -1)     (2, 4)
//
// All are linear, so the gradient of each is composed of the others, and all can be differentiated
// any number of times.
//
// A view shares x's memory: nothing is copied, and an in-place change of one changes both. reshape
// and flatten return views where strides can express the result, and copies elsewhere. Where a
// function may return x itself, its comment says so. Negative axes count from the end. Repeating
// elements (expand) is in broadcast.h.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "ringrad/autograd/broadcast.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

// -- Views --------------------------------------------------------------------------------------

/// The same elements, in row-major order, with another shape; x itself if it has that shape.
///
/// Shapes:  as many elements as x; one extent may be -1
/// Throws:  ShapeError if the number of elements differs
Tensor reshape(const Tensor& x, const Shape& shape, Where where = Where::current());

/// Merges the axes from `first` to `last` into one. Throws ShapeError for an absent axis, or unless
/// first <= last.
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1,
               Where where = Where::current());

/// Axis i of the result is x's axis order[i]. Throws ShapeError unless order is a permutation of
/// the axes.
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

/// One position of an axis; the result lacks that axis. Throws ShapeError for an absent axis,
/// IndexError for a position outside the axis.
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index,
              Where where = Where::current());

/// Visits the positions of x's first axis: for (const Tensor row : x).
/// Each is a view, select(x, 0, i).
class RowIterator {
 public:
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;

  RowIterator(const Tensor& x, std::int64_t index, Where where)
      : x_(x), index_(index), where_(where) {}

  Tensor operator*() const { return select(x_, 0, index_, where_); }
  RowIterator& operator++() {
    ++index_;
    return *this;
  }
  bool operator==(const RowIterator& other) const { return index_ == other.index_; }

 private:
  Tensor x_;
  std::int64_t index_;
  Where where_;
};

/// Throws ShapeError for a tensor without axes.
RowIterator begin(const Tensor& x, Where where = Where::current());
RowIterator end(const Tensor& x, Where where = Where::current());

/// Drops the given axes that have extent 1 (default: all such axes); other axes stay.
Tensor squeeze(const Tensor& x, const Shape& axes = {}, Where where = Where::current());

/// Adds an axis of extent 1 at `axis` of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t axis, Where where = Where::current());

/// Pieces of `size` along an axis; the last one may be shorter. An axis without elements gives one
/// empty piece.
/// Throws:  ShapeError for an absent axis, ValueError unless size > 0
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0,
                          Where where = Where::current());

/// Pieces of the given sizes along an axis.
/// Throws:  ShapeError for an absent axis, or unless the sizes are non-negative and add up to its
///          extent
std::vector<Tensor> split_sizes(const Tensor& x, std::span<const std::int64_t> sizes,
                                std::int64_t axis = 0, Where where = Where::current());

/// At most `count` pieces of equal size, except the last, which may be shorter.
/// Throws:  ShapeError for an absent axis, ValueError unless count > 0
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0,
                          Where where = Where::current());

// -- Copies -------------------------------------------------------------------------------------

/// A copy in fresh memory, with the same axis order in memory if x is dense.
Tensor clone(const Tensor& x, Where where = Where::current());

/// x itself if it is contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& x, Where where = Where::current());

/// x itself if it already has this layout, else a copy with this layout.
/// Throws:  ShapeError for channels_last unless x is (B, C, H, W)
Tensor to_layout(const Tensor& x, Layout layout, Where where = Where::current());

/// x itself if it has this dtype, else a copy, converted as in C++; no gradient passes through
/// integers.
Tensor to(const Tensor& x, DType dtype, Where where = Where::current());

/// x itself if it is on this device, else a copy there; its gradient is copied back. For a copy
/// between GPUs the host does not wait, and each GPU waits only for the copy (core/transfer.h).
Tensor to(const Tensor& x, Device device, Where where = Where::current());

// -- Joining ------------------------------------------------------------------------------------

/// y = [x0 | x1 | ...] along an axis that all tensors have; channels_last if all of them are, else
/// contiguous.
///
/// Shapes:  equal except along `axis`, where the extents add up
/// DTypes:  all, the same for each
/// Throws:  ValueError for an empty list; ShapeError if shapes differ elsewhere, or for an absent
///          axis; DTypeError, DeviceError
Tensor concatenate(std::span<const Tensor> list, std::int64_t axis = 0,
                   Where where = Where::current());
Tensor concatenate(std::initializer_list<Tensor> list, std::int64_t axis = 0,
                   Where where = Where::current());

/// The same along a new axis, which is `axis` of the result, for tensors of one shape.
Tensor stack(std::span<const Tensor> list, std::int64_t axis = 0, Where where = Where::current());
Tensor stack(std::initializer_list<Tensor> list, std::int64_t axis = 0,
             Where where = Where::current());

}  // namespace ringrad
