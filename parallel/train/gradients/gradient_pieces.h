// GradientPiece: a rank's piece of the gradient of one parameter of the whole model. Ranks tell
// each other their pieces once, so that a norm counts every element of the model once:
//
//     weight (4, 6)   rank 0   rows 0, 1   elements [0, 8)      ColumnParallelLinear on two ranks,
//                     rank 1   rows 0, 1   elements [8, 12)     each with a ShardedOptimizer on
//                     rank 2   rows 2, 3   elements [0, 8)      two replicas
//                     rank 3   rows 2, 3   elements [8, 12)
//     bias (6)        all      whole       elements [0, 6)      rank 0 counts it
//
// Everything here is a pure function of its arguments.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ringrad/parallel/train/checkpoint/checkpoint_index.h"

namespace ringrad {

struct GradientPiece {
  std::string name;                 ///< of the parameter in the whole model
  std::int64_t numel = 0;           ///< of the whole parameter
  TensorSlice slice;                ///< this rank's part of the parameter
  std::int64_t begin = 0, end = 0;  ///< elements of that part, in the order of its memory
  bool is_repeated = false;         ///< its elements count under another name (tied parameters)
};

/// A rank's pieces as text for the other ranks, and its inverse.
std::string text_of(const std::vector<GradientPiece>& pieces);
std::vector<GradientPiece> parse_gradient_pieces(std::string_view text);

/// For each piece of `rank`, whether this rank counts it: a piece that several ranks have is
/// counted by the lowest one.
///
/// Throws: ValueError that names the parameter, unless its pieces are equal or have no element in
///         common, and cover it
std::vector<bool> counted_pieces(const std::vector<std::vector<GradientPiece>>& by_rank, int rank,
                                 Where where);

}  // namespace ringrad
