// Sums of products in Einstein's notation.
//
//     einsum("ij,jk->ik", {a, b})               matmul(a, b)
//     einsum("bhqd,bhkd->bhqk", {q, k})         the scores of attention
//     einsum("ii->i", {a})                      the diagonal, a view
//     einsum("...ij->...ji", {a})               a transposition, a view
//     einsum("bi,ij,bj->b", {x, a, y})          a bilinear form
//
// Each operand has a term of letters, one per axis; "..." stands for any number of axes, which
// broadcast. A letter that the result lacks is summed over. Without an arrow the result has the
// axes of the ellipses and then, in alphabetical order, the letters that occur once.
//
// More than two operands are contracted pair by pair: up to four in the order of fewest
// multiplications, more in a greedy order, which first forms the results that are small beside
// their factors. A pair that shares a summed letter is one batched matmul on permuted views, which
// are copied only if no strides can express the matrices; other pairs are broadcast products.

#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// The product of the operands, summed over all letters that the result lacks.
///
/// Shapes:  one extent per letter; an extent of 1 broadcasts. The result may be a view of an
///          operand, and its axes may lie in any order in memory
/// DTypes:  floats, the same for each; as matmul
/// Saves:   as the products, sums and views that compute it
/// Throws:  ValueError for a malformed equation or one for another number of operands; ShapeError,
///          DTypeError, DeviceError
Tensor einsum(const std::string& equation, std::span<const Tensor> operands,
              Where where = Where::current());
Tensor einsum(const std::string& equation, std::initializer_list<Tensor> operands,
              Where where = Where::current());

}  // namespace ringrad
