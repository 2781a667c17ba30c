// Diagonals and triangles of matrices. Matrices are the last two axes, or two axes that the caller
// names.
//
//     diagonal 0 begins at (0, 0), diagonal k > 0 at (0, k), and diagonal k < 0 at (-k, 0)

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A diagonal of the matrices along two axes, as a view. Its axis comes last.
///
///     y[.., i] = x[i + max(-offset, 0), i + max(offset, 0), ..]
///
/// DTypes:  all
/// Throws:  ShapeError for absent axes, or if the two are one
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t axis0 = 0,
                std::int64_t axis1 = 1, Where where = Where::current());

/// A copy of the matrices x (.., R, C) with 0 above a diagonal: the lower triangles.
///
/// DTypes:  all
/// Throws:  ShapeError for fewer than two axes
Tensor tril(const Tensor& x, std::int64_t diagonal = 0, Where where = Where::current());

/// The same with 0 below a diagonal: the upper triangles.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0, Where where = Where::current());

}  // namespace ringrad
