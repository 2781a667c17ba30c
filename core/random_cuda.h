// Random elements made on a GPU. Private to random.cc.

#pragma once

#include "core/tensor.h"

namespace ringrad::cuda {

/// Where the words begin: at `counter`, or at what lies in the device's memory (capture.h).
struct FirstCounter {
  std::uint64_t counter;
  const std::uint64_t* replayed;
};

/// Element i of x in row-major order, from the words that random.h says it is made from. Draw is one
/// of random_draws.h.
template <class T, class Draw>
void fill_random(const Tensor& x, std::uint64_t seed, FirstCounter first, const Draw& draw,
                 Where where);

}  // namespace ringrad::cuda
