// Embedding: a table of vectors, looked up by token.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad {

/// y[.., :] = weight[indices[..], :]
///
/// The gradient of a row is the sum over its occurrences, always added in their order.
///
/// Shapes:  weight (V, C), indices (..)  ->  (.., C)
/// DTypes:  weight every floating dtype; indices int32 or int64
/// Saves:   indices
/// Throws:  IndexError for an index outside [0, V); ShapeError, DTypeError, DeviceError
Tensor embedding(const Tensor& weight, const Tensor& indices, Where where = Where::current());

/// The same, with one row that stands for padding and gets no gradient.
/// Throws:  also IndexError unless 0 <= padding_index < V
Tensor embedding(const Tensor& weight, const Tensor& indices, std::int64_t padding_index,
                 Where where = Where::current());

}  // namespace ringrad
