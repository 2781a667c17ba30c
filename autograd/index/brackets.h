// How x[{...}] reads tensors among its indices, as in PyTorch.
//
//     x[rows]                      y[i, ..] = x[rows[i], ..]
//     x[{rows, columns}]           y[i] = x[rows[i], columns[i]]: tensors of indices broadcast
//     x[{Slice(), columns}]        y[j, i] = x[j, columns[i]]
//     x[mask]                      all elements at which the mask is true, in row-major order
//
// An integer tensor lists positions of one axis; negative ones count from the end. A bool tensor of
// k axes stands for k axes of x, and means the positions at which it is true. The broadcast shape
// of the tensors takes the place of the axes that they index if these are neighbours, else it comes
// first. An integer tensor without axes counts as a plain position: only the other tensors decide
// whether axes are neighbours. Indices that are not tensors are applied first, as views.
//
// Reading copies, and its gradient sums in a fixed order (kernels/index/index_select.h). Strides
// are not negative, so a slice with a negative step, which PyTorch refuses, is a copy as well.
// Operators in place on x[mask] would change the copy: assign() of in_place.h writes to x.

#pragma once

#include <span>

#include "ringrad/core/tensor.h"

namespace ringrad::detail {

/// The positions as int64, with negative ones counted from the end of an axis of this extent.
/// REQUIRES: positions are int32 or int64
/// Throws:   IndexError for a position outside [-extent, extent)
Tensor from_start(const char* operation, const Tensor& positions, std::int64_t extent, Where where);

/// The indices as one list of positions in `count` neighbouring axes of a view of x. Without
/// tensors among the indices `count` is 0 and positions is undefined.
struct Selection {
  Tensor view;
  int axis = 0, count = 0;
  Tensor positions;  ///< int64, of any shape: in row-major order of these axes
  Shape reversed;    ///< axes of the selection that a slice with a negative step reads

  /// The shape of what is selected.
  Shape shape() const;
  /// The view with the indexed axes as one.
  Shape flat() const;
};

/// Throws:  ShapeError for more indices than axes, two kEllipsis, a mask of another shape, or
///          tensors that do not broadcast; DTypeError unless tensors are bool, int32 or int64;
///          ValueError for a step of 0; IndexError; DeviceError. Waits for the GPU that a mask is
///          on.
Selection select_by(const Tensor& x, std::span<const Index> indices, Where where);

}  // namespace ringrad::detail
