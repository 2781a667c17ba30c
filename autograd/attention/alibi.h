// Attention with linear biases: instead of embeddings of positions, scores that fall with the
// distance between query and key.
//
//     heads 8:  slopes 1/2, 1/4, ... 1/256         scores += -slope * distance
//
// Paper: Press, Smith, Lewis 2021, arXiv:2108.12409

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// A slope per head: 2^(-8 i / n) for i = 1 ... n, if the number n of heads is a power of two.
/// Otherwise the slopes for the largest power of two below n come first, followed by every second
/// slope for twice that power.
///
/// Shapes:  (heads), float32, on the default device
/// Throws:  ValueError unless heads > 0
Tensor alibi_slopes(std::int64_t heads, Where where = Where::current());

/// The mask for scaled_dot_product_attention: -slope * |t + S - T - s| for query t and key s, which
/// end together as with CausalAlignment::lower_right.
///
/// Shapes:  (heads, T, S), float32, on the default device
/// Throws:  ValueError unless heads > 0; ShapeError for negative T or S
Tensor alibi_bias(std::int64_t heads, std::int64_t T, std::int64_t S,
                  Where where = Where::current());

}  // namespace ringrad
