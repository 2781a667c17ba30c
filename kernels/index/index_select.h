// Selects slices of a tensor along one axis by a list of positions, and computes the adjoint.
//
//     index_select    y[.., i, ..] = x[.., indices[i], ..]
//     index_sum       y[.., j, ..] = sum of x[.., i, ..] over all i with indices[i] = j
//
// Each is the gradient of the other. index_sum first sorts the positions i by their target j (a
// stable sort keeps their order), and then computes each slice j at once. It accumulates in the
// type of the arithmetic and writes once. The indices alone decide the order of addition (on a CPU,
// the order of i), so that the result is the same for any number of threads.
//
// Extents: I number of indices, N extent of the axis.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Shapes:  x (.., N, ..), indices (I)  ->  (.., I, ..)
/// DTypes:  x every dtype; indices int32 or int64
/// Throws:  ShapeError for an absent axis or indices without exactly one axis; DTypeError;
///          DeviceError; IndexError for an index outside [0, N)
Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& indices,
                    Where where = Where::current());

/// Shapes:  x (.., I, ..), indices (I)  ->  (.., size, ..)
/// DTypes:  x every floating dtype
/// Throws:  as index_select
Tensor index_sum(const Tensor& x, std::int64_t axis, const Tensor& indices, std::int64_t size,
                 Where where = Where::current());

// Both functions below see a contiguous tensor as (outer, extent of the axis, inner).

/// y[o, i, :] = x[o, indices[i], :]
/// REQUIRES: all are contiguous, x and y of one dtype; indices are checked
void select_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   const Tensor& indices, const Tensor& y, Where where);

/// y[o, j, :] = sum of x[o, i, :] over indices[i] = j; 0 for j = `excluded`.
/// REQUIRES: as select_slices, and a floating dtype
void sum_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Tensor& indices, std::int64_t excluded, const Tensor& y, Where where);

namespace cpu {

// REQUIRES: indices are valid
void select_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   const Tensor& indices, const Tensor& y);
void sum_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Tensor& indices, std::int64_t excluded, const Tensor& y);

}  // namespace cpu

namespace cuda {

// Like their CPU counterparts, except that indices may be out of range: such positions are 0 in a
// selection and are left out of sums.

void select_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   const Tensor& indices, const Tensor& y, Where where);

/// Throws ValueError for 2^31 indices or more.
void sum_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Tensor& indices, std::int64_t excluded, const Tensor& y, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
