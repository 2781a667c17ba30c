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
// first. Other indices are applied before, as views.
//
// Reading copies, and its gradient sums in a fixed order (kernels/index/index_select.h). Operators
// in place on x[mask] would change the copy: assign() of in_place.h writes to x.

#pragma once

#include <span>

#include "ringrad/core/tensor.h"

namespace ringrad::detail {

/// The indices as one list of positions in `count` neighbouring axes of a view of x. Without
/// tensors among the indices `count` is 0 and positions is undefined.
struct Selection {
  Tensor view;
  int axis = 0, count = 0;
  Tensor positions;  ///< int64, of any shape: in row-major order of these axes

  /// The shape of what is selected.
  Shape shape() const;
  /// The view with the indexed axes as one.
  Shape flat() const;
};

/// Throws:  ShapeError for more indices than axes, two kEllipsis, a mask of another shape, or
///          tensors that do not broadcast; DTypeError unless tensors are bool, int32 or int64;
///          IndexError; DeviceError. Waits for the GPU that a mask is on.
Selection select_by(const Tensor& x, std::span<const Index> indices, Where where);

}  // namespace ringrad::detail
