// Copies a tensor into another of any strides and dtype, or into a fresh tensor.
//
//     dst[i, j, ...] = dtype(src[i, j, ...])       src broadcast to dst's shape
//
// Conversions are C++'s: float to integer truncates towards zero, integer or wider float to float
// rounds to nearest, integer to integer wraps modulo 2^n, bool gives 0 or 1, and `!= 0` gives bool.
// A float that the integer type cannot hold, or NaN, becomes an unspecified number.
//
// Cost: equal layouts are one memcpy. A transposition (matrix transpose, NCHW <-> NHWC) moves
// square tiles through the first-level cache, or a GPU's shared memory. Both run at memory
// bandwidth.
//
// A copy may cross devices, between GPUs or between a GPU and the CPU, as one block of bytes.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Writes src, converted and broadcast, into dst. The two may overlap in memory: the result is as
/// if src were read completely before the first write.
///
/// Throws:  ShapeError unless src broadcasts to dst; ValueError if two elements of dst share one
///          place in memory, as in an expanded tensor
void copy_(const Tensor& dst, const Tensor& src, Where where = Where::current());

/// x itself if it is contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& x, Where where = Where::current());

/// x itself if its memory already has this layout, else a copy that has it.
/// Throws:  ShapeError for channels_last unless x is (B, C, H, W)
Tensor to_layout(const Tensor& x, Layout layout, Where where = Where::current());

/// x itself if it has this dtype, else a converted copy in the same order of axes in memory.
Tensor cast(const Tensor& x, DType dtype, Where where = Where::current());

/// A copy in fresh memory, in the same order of axes if x is dense.
Tensor clone(const Tensor& x, Where where = Where::current());

}  // namespace ringrad::kernels
