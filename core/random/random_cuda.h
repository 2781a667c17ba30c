// Fills tensors with random elements on a GPU. Private to random.cc.

#pragma once

#include "ringrad/core/tensor.h"

namespace ringrad::cuda {

/// The counter of the first words: `counter`, or the value at `replayed` in device memory
/// (capture.h).
struct FirstCounter {
  std::uint64_t counter;
  const std::uint64_t* replayed;
};

/// Makes element i of x, in row-major order, from the words that random.h gives it. Draw is one of
/// random_draws.h.
template <class T, class Draw>
void fill_random(const Tensor& x, std::uint64_t seed, FirstCounter first, const Draw& draw,
                 Where where);

}  // namespace ringrad::cuda
