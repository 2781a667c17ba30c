// Rotary position embedding: pairs of a head's elements, turned by angles that grow with the
// position.
//
//     (y_a, y_b) = (x_a cos w - x_b sin w,  x_b cos w + x_a sin w),   w = position * base^(-2i / R)
//
// for pair i of R / 2. The product of a rotated query and a rotated key depends on their contents
// and on the distance of their positions only. The inverse turns by -w, and is also the gradient.
//
//     halves         a = i, b = i + R / 2          GPT-NeoX, Llama
//     interleaved    a = 2i, b = 2i + 1            GPT-J, the paper
//
// Angles are computed in float64, so that they are exact at large positions.
//
// Paper: Su, Lu, Pan, Murtadha, Wen, Liu 2021, arXiv:2104.09864

#pragma once

#include <cstdint>

#include "ringrad/core/tensor.h"

namespace ringrad {

struct RotaryOptions {
  std::int64_t offset = 0;   ///< position of the first row: the number of kept keys in generation
  double base = 10000;       ///< the slowest pair turns once in about 2 pi base positions
  bool interleaved = false;  ///< pairs are neighbours, instead of the two halves
  std::int64_t size = 0;     ///< R: the leading elements that turn; 0 means all of them
};

}  // namespace ringrad

namespace ringrad::kernels {

/// Row t of axis -2 has position offset + t. The result has the memory order of x if it is dense.
///
/// Shapes:  x (..., T, D)
/// DTypes:  every floating dtype; 16-bit ones compute in float32
/// Throws:  ShapeError for fewer than two axes, or unless R is even and at most D; ValueError
///          unless 0 <= offset <= 2^53, size >= 0 and base > 0; DTypeError
Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options, bool inverse = false,
                        Where where = Where::current());

/// What the kernels need; x and y of equal shapes, any strides.
struct RotaryCall {
  Tensor x, y;
  RotaryOptions options;  ///< with size = R, also where the caller gave 0
  double sign;            ///< of the angles
};

namespace cpu {

void rotary_embedding(const RotaryCall& call);

}  // namespace cpu

namespace cuda {

void rotary_embedding(const RotaryCall& call, Where where);

}  // namespace cuda
}  // namespace ringrad::kernels
