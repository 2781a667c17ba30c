// pad: adds positions before and after the axes of a tensor.
//
//     constant     0 0 | a b c d | 0 0
//     reflect      c b | a b c d | c b      mirrored at the edge, which is not repeated
//     replicate    a a | a b c d | d d

#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// What pad() puts into the positions that it adds.
enum class PadMode : std::uint8_t {
  constant,   ///< one value
  reflect,    ///< the elements inside the edge, mirrored
  replicate,  ///< the element at the edge
};

/// A copy of x with positions added to its last axes. `amounts` lists pairs (before, after) and
/// starts with the last axis, as in PyTorch: {1, 1} pads a row, {1, 1, 2, 2} also pads the columns
/// by 2. A negative amount removes positions.
///
/// DTypes:  all; the gradient of reflect and replicate, which sums, needs a floating dtype
/// Throws:  ValueError for an odd number of amounts; ShapeError for more pairs than axes, for a
///          negative extent, for reflect by the whole axis or more, or for replicate of an axis
///          without elements
Tensor pad(const Tensor& x, std::span<const std::int64_t> amounts, PadMode mode = PadMode::constant,
           Scalar value = 0, Where where = Where::current());
Tensor pad(const Tensor& x, std::initializer_list<std::int64_t> amounts,
           PadMode mode = PadMode::constant, Scalar value = 0, Where where = Where::current());

}  // namespace ringrad
