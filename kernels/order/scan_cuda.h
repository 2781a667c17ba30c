// The kernels behind scan.h. Private to kernels/order/scan*.

#pragma once

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/order/scan.h"

namespace ringrad::kernels::cuda {

// REQUIRES: operands are contiguous, of y's dtype, and not empty
void scan(ScanOp op, const Tensor& x, const Lines& lines, bool reversed, const Tensor& y,
          Where where);
void recurrence(const Tensor& a, const Tensor& b, const Lines& lines, bool reversed,
                const Tensor& y, Where where);

}  // namespace ringrad::kernels::cuda
