// Copies: from one tensor into another of any strides and dtype, and the fresh tensors made that
// way.
//
//     dst[i, j, ...] = dtype(src[i, j, ...])       src broadcast to dst's shape
//
// Conversions are C++'s: towards zero from float to integer, to the nearest from integer or wider
// float to float, modulo 2^n between integers, 0 or 1 from bool, and `!= 0` to bool. A float that
// its integer type cannot hold, or NaN, becomes an unspecified number.
//
// Cost: equal layouts are one memcpy; a transposition (matrix transposes, NCHW <-> NHWC) moves
// square tiles through the first-level cache, or a GPU's shared memory. Both run at the speed of memory.
//
// A copy may cross devices: between GPUs, or between one and the CPU, as one block of bytes.

#pragma once

#include "core/tensor.h"

namespace ringrad::kernels {

/// Writes src, converted and broadcast, into dst. The two may overlap in memory: src is read as if
/// before any write.
///
/// Throws:  ShapeError unless src broadcasts to dst; ValueError if two elements of dst are one
///          place in memory, as in an expanded tensor
void copy_(const Tensor& dst, const Tensor& src, Where where = Where::current());

/// x itself if it is contiguous, else a contiguous copy.
Tensor contiguous(const Tensor& x, Where where = Where::current());

/// x itself if its memory has this layout already, else a copy that has it.
/// Throws:  ShapeError for channels_last unless x is (B, C, H, W)
Tensor to_layout(const Tensor& x, Layout layout, Where where = Where::current());

/// x itself if it has this dtype, else a converted copy in the same order of axes in memory.
Tensor cast(const Tensor& x, DType dtype, Where where = Where::current());

/// A copy in fresh memory, in the same order of axes if x is dense.
Tensor clone(const Tensor& x, Where where = Where::current());

}  // namespace ringrad::kernels
