// The parsed equation of einsum: the label of each axis of each operand. Private to einsum.cc.
//
//     "bij,...jk"    operands  {b i j}, {e0 j k}       output  {e0 b i k}
//
// A label is a number: 0 to 51 for the letters A to Z and a to z, 52 to 59 for the axes that an
// ellipsis stands for. Those are numbered from the right, so that ellipses of different lengths
// broadcast as shapes do.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringrad/core/tensor.h"

namespace ringrad::einsum_equation {

using Label = int;
using Labels = std::vector<Label>;
inline constexpr int kLetters = 52;
inline constexpr int kMostLabels = kLetters + kMaxDims;

/// One bit per label.
using LabelSet = std::uint64_t;
constexpr LabelSet only(Label label) { return LabelSet{1} << label; }
LabelSet set_of(const Labels& labels);

struct Equation {
  std::vector<Labels> operands;  ///< the label of each axis
  Labels output;
  std::array<std::int64_t, kMostLabels> extents{};  ///< of each label that occurs
};

/// Throws ValueError for a malformed equation, or one for another number of operands; ShapeError
/// for an operand of another number of axes, or a label whose extents are neither equal nor 1.
Equation read(const std::string& equation, std::span<const Tensor> operands, Where where);

}  // namespace ringrad::einsum_equation
