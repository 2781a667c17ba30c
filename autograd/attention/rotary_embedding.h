// Rotary position embedding; kernels/attention/rotary_embedding.h has the formula.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/attention/rotary_embedding.h"

namespace ringrad {

/// Turns pairs of elements of queries or keys by angles that grow with their positions, so that the
/// product of a query and a key depends on the distance between them. Row t of axis -2 has position
/// offset + t.
///
/// Shapes:  x (..., T, D), such as (B, H, T, D)
/// DTypes:  every floating dtype; 16-bit ones compute in float32, and angles in float64
/// Throws:  ShapeError for fewer than two axes, or unless an even number of elements turns, at most
///          D; ValueError unless offset and size are not negative and base > 0; DTypeError
/// Paper:   Su, Lu, Pan, Murtadha, Wen, Liu 2021, arXiv:2104.09864
Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options = {},
                        Where where = Where::current());

}  // namespace ringrad
