// 3x3 convolution with stride 1 by Winograd's minimal filtering F(4x4, 3x3).
//
// Four neighbouring outputs of a 3-tap filter g over six inputs d are a product of polynomials. It
// can be computed at six points (0, 1, -1, 2, -2, infinity) instead of term by term:
//
//     y = A' [(G g) * (B' d)]            6 multiplications where the definition has 12
//
// In two dimensions the transforms apply to columns, then to rows: a 6x6 tile of x gives a 4x4 tile
// of y with 36 multiplications instead of 144. Summing over channels makes each of the 36 places a
// matrix product, which takes most of the time:
//
//     x (B, H, W, C)  --B'.B-->  36 x (tiles, C)
//                                      * 36 x (C, K)  <--G.G'--  weight (K, C, 3, 3)
//     y (B, P, Q, K)  <--A'.A--  36 x (tiles, K)
//
// The gradient with respect to x is the same, with the filter rotated by 180 degrees and C and K
// exchanged. The gradient with respect to the filter correlates x with grad_y: a filter of 4 taps,
// 3 outputs, and again 6 inputs. So it uses the same points and the same B', with other G and A.
//
// Extents: B batch, C input channels, K output channels, H W input pixels, P Q output pixels.
// Images are channels_last.
//
// Tiles of uneven pixels are computed by the definition (winograd_uneven.h; README.md).
//
// Paper: Lavin and Gray 2015, arXiv:1509.09308

#pragma once

#include <cstdint>

#include "ringrad/core/base/error.h"

namespace ringrad::kernels::winograd {

/// Extents of one convolution: P = H + 2 * padding_h - 2, Q = W + 2 * padding_w - 2.
struct Problem {
  std::int64_t B, C, H, W, K, P, Q;
  std::int64_t padding_h, padding_w;
};

/// True if the transforms apply: C and K are multiples of 16, and the padding is at most 2.
bool supports(const Problem& problem);

/// True if the transforms are also the fastest method here: the machine has AVX-512, and the
/// transformed filter stays in cache.
bool is_fast(const Problem& problem);

/// y (B, P, Q, K) from x (B, H, W, C), weight (K, C, 3, 3), and bias (K) or null.
///
/// REQUIRES: supports(problem), for all three functions
void forward(const Problem& problem, const float* x, const float* weight, const float* bias,
             float* y, Where where);

/// grad_x (B, H, W, C) from grad_y (B, P, Q, K) and weight (K, C, 3, 3).
void backward_input(const Problem& problem, const float* grad_y, const float* weight, float* grad_x,
                    Where where);

/// grad_weight (K, C, 3, 3) from x and grad_y. The order of summation, and with it the last bits,
/// depends on the number of threads.
void backward_weight(const Problem& problem, const float* x, const float* grad_y,
                     float* grad_weight, Where where);

}  // namespace ringrad::kernels::winograd
