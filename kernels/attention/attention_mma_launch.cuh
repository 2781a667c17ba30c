// What the launchers of attention on tensor cores share. Private to kernels/attention/*_cuda.cu.

#pragma once

#include <algorithm>
#include <cstdint>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/attention/attention_mma_scores.cuh"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad::kernels::cuda {

/// x itself if its columns lie side by side and every 8 of them fill 16 aligned bytes, else a
/// contiguous copy. The copy reads x once, which costs little compared with the products.
inline Tensor with_aligned_rows(const Tensor& x, Where where) {
  bool fits = x.strides()[3] == 1 && reinterpret_cast<std::uintptr_t>(x.raw_data()) % 16 == 0;
  for (int axis = 0; axis < 3; ++axis) fits &= x.shape()[axis] == 1 || x.strides()[axis] % 8 == 0;
  return fits ? x : contiguous(x, where);
}

/// body.operator()<T, kD>(), where kD columns hold a head. REQUIRES: dtype has 16 bits
template <class Body>
void dispatch_heads(DType dtype, const AttentionProblem& a, Body body) {
  const auto with = [&]<class T>() {
    const std::int64_t size = std::max(a.D, a.Dv);
    if (size <= 32) return body.template operator()<T, 32>();
    if (size <= 64) return body.template operator()<T, 64>();
    if (size <= 96) return body.template operator()<T, 96>();
    body.template operator()<T, 128>();
  };
  dtype == DType::bfloat16 ? with.template operator()<bfloat16>()
                           : with.template operator()<float16>();
}

}  // namespace ringrad::kernels::cuda
