// The kernels behind sort.h. Private to kernels/order/sort*.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/order/sort.h"

namespace ringrad::kernels::cuda {

// As cpu::sort.
void sort(const Tensor& x, const Lines& lines, std::int64_t k, bool descending,
          const Sorted& sorted, Where where);

}  // namespace ringrad::kernels::cuda
