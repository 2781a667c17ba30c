// Brings operands into memory orders that one flat loop can traverse.
//
// A kernel that treats all elements alike needs no particular layout, only the same gapless layout
// for all its operands. So the first operand keeps its order if it is dense, and the others follow
// it. Usually neither needs a copy.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels {

/// x itself if its elements fill one block of memory, in any order of axes; else a contiguous copy.
inline Tensor dense(const Tensor& x, Where where = Where::current()) {
  return x.is_contiguous() || is_dense(x.shape(), x.strides()) ? x : contiguous(x, where);
}

/// True if the elements of two dense tensors of one shape lie in the same order.
inline bool same_order(const Tensor& a, const Tensor& b) {
  if (a.is_contiguous() && b.is_contiguous()) return true;
  for (int axis = 0; axis < a.dims(); ++axis)
    if (a.shape()[axis] > 1 && a.strides()[axis] != b.strides()[axis]) return false;
  return true;
}

/// x itself if its elements lie in the same order as those of `reference`, else a copy in that
/// order.
/// REQUIRES: shapes are equal; reference is dense
inline Tensor in_order_of(const Tensor& x, const Tensor& reference,
                          Where where = Where::current()) {
  if (same_order(x, reference)) return x;
  const Tensor copy = empty_like(reference, x.dtype(), where);
  copy_(copy, x, where);
  return copy;
}

}  // namespace ringrad::kernels
