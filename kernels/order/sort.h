// Sorting the lines of a tensor along an axis.
//
//     x         3 1 2 1
//     values    1 1 2 3
//     indices   1 3 2 0       values[i] = x[indices[i]]
//
// A NaN counts as larger than any number (order_key.h). The sort is stable: equal elements keep
// their order.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/order/scan.h"

namespace ringrad::kernels {

struct Sorted {
  Tensor values;   ///< of x's dtype
  Tensor indices;  ///< int64
};

/// Shapes:  both results like x; a tensor without axes is a line of one element
/// DTypes:  all
/// Throws:  ShapeError for an absent axis; ValueError for lines of 2^31 elements or more
Sorted sort(const Tensor& x, std::int64_t axis, bool descending, Where where = Where::current());

/// The first k elements of the sorted lines: the largest ones, or the smallest.
///
/// Shapes:  both results like x, with extent k along the axis
/// Throws:  as sort; ShapeError unless 0 <= k <= the extent of the axis
Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest,
            Where where = Where::current());

namespace cpu {

// The first k elements of the sorted lines. REQUIRES: x, values, indices are contiguous
void sort(const Tensor& x, const Lines& lines, std::int64_t k, bool descending,
          const Sorted& sorted);

}  // namespace cpu

namespace cuda {

// As cpu::sort.
void sort(const Tensor& x, const Lines& lines, std::int64_t k, bool descending,
          const Sorted& sorted, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
