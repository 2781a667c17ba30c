// Positions of the largest and the smallest element.

#pragma once

#include <optional>

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// The position of the largest element along `axis`, or, without an axis, its position in row-major
/// order of all elements. The first of equal elements wins, and a NaN is larger than any number.
///
/// Shapes:  x's shape without `axis`, or with extent 1 there if keepdim; without an axis (), or all
///          ones if keepdim
/// DTypes:  all; the result is int64
/// Throws:  ShapeError for an absent axis, or if there are no elements to choose from
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

/// The same for the smallest element; a NaN is smaller than any number.
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdim = false,
              Where where = Where::current());

/// x seen as (outer, extent, inner), the result as (outer, inner).
struct Positions {
  std::int64_t outer = 1, extent = 1, inner = 1;
};

// Of the largest or of the smallest elements. REQUIRES: x contiguous; positions.extent > 0
namespace cpu {
void find_extreme(const Tensor& x, const Positions& positions, bool largest, const Tensor& result,
                  Where where);
}
namespace cuda {
void find_extreme(const Tensor& x, const Positions& positions, bool largest, const Tensor& result,
                  Where where);
}

}  // namespace ringrad::kernels
