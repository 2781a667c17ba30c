// Copies that contain the elements of a tensor several times, and grids of coordinates.
//
//     x                          a b
//     repeat(x, 3)               a b a b a b
//     repeat_interleave(x, 3)    a a a b b b

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad {

/// x, repeated `counts[k]` times along axis k of the result, which has as many axes as there are
/// counts; x counts as having axes of extent 1 before its own.
///
/// DTypes:  all; the gradient, which sums, needs a floating dtype
/// Throws:  ShapeError for fewer counts than axes, and for a result of more than int64 bytes;
///          ValueError for a negative count
Tensor repeat(const Tensor& x, const Shape& counts, Where where = Where::current());

/// The same, but fewer counts than axes are allowed and apply to the last axes, as in NumPy.
Tensor tile(const Tensor& x, const Shape& counts, Where where = Where::current());

/// Each position of an axis `repeats` times in a row; without an axis, each element of x in
/// row-major order.
///
/// DTypes:  as repeat
/// Throws:  as repeat; ShapeError for an absent axis
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                         std::optional<std::int64_t> axis = {}, Where where = Where::current());

/// The same with a count for each position. Waits for the GPU on which the counts are.
///
/// Shapes:  repeats (N) for an axis of extent N
/// DTypes:  repeats int32 or int64
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                         std::optional<std::int64_t> axis = {}, Where where = Where::current());

/// Which axis of meshgrid's results belongs to the first list of coordinates: 0 or, as in images,
/// 1.
enum class Indexing : std::uint8_t { ij, xy };

/// The coordinates of all points of a grid. Element (i, j, ..) of result 0 is coordinate i of list
/// 0; that of result 1 is coordinate j of list 1, and so on. The results are views.
///
/// Shapes:  lists (N0), (N1), ..  ->  each (N0, N1, ..), or (N1, N0, ..) for xy; () counts as (1)
/// Throws:  ValueError for no lists, ShapeError for more than one axis
std::vector<Tensor> meshgrid(std::span<const Tensor> lists, Indexing indexing = Indexing::ij,
                             Where where = Where::current());
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> lists, Indexing indexing = Indexing::ij,
                             Where where = Where::current());

}  // namespace ringrad
