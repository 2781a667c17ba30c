// Embedding: a table of vectors, looked up by token.
//
//     y[.., :] = weight[indices[..], :]
//
// Extents: V rows of the table (the vocabulary), C their length.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::kernels {

/// Shapes:  weight (V, C), indices (..)  ->  (.., C)
/// DTypes:  weight every floating dtype; indices int32 or int64
/// Throws:  ShapeError, DTypeError, DeviceError; IndexError for an index outside [0, V)
Tensor embedding(const Tensor& weight, const Tensor& indices, Where where = Where::current());

/// grad_weight[v, :] = sum of grad_output[.., :] where indices[..] = v, in an order that the
/// indices alone decide (index_select.h). Row `padding_index`, if not negative, is 0.
///
/// Shapes:  grad_output (.., C), indices (..)  ->  (num_rows, C)
Tensor embedding_backward(const Tensor& grad_output, const Tensor& indices, std::int64_t num_rows,
                          std::int64_t padding_index, Where where = Where::current());

/// The same into existing memory; every element of it is written.
///
/// Throws:  ShapeError unless grad_weight is contiguous
void embedding_backward(const Tensor& grad_output, const Tensor& indices,
                        std::int64_t padding_index, const Tensor& grad_weight,
                        Where where = Where::current());

}  // namespace ringrad::kernels
