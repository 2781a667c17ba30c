#include "ringrad/kernels/copy/flip.h"

#include "ringrad/kernels/copy/copy_cpu.h"
#include "ringrad/kernels/copy/copy_cuda.h"

namespace ringrad::kernels {

// The source starts at the last position of each reversed axis and has negative strides there.
Tensor flip(const Tensor& x, const Shape& axes, Where where) {
  const unsigned reversed = axes_mask("flip", axes, x.dims(where), where);
  const Tensor y = empty_like(x, where);
  if (y.numel() == 0) return y;
  Strides strides = x.strides();
  std::int64_t last = 0;
  for (int i = 0; i < x.dims(); ++i) {
    if (!(reversed >> i & 1u)) continue;
    last += (x.shape()[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  const auto nest = make_loop_nest<2>(y.shape(), {&y.strides(), &strides});
  const std::byte* src = x.raw_data() + last * static_cast<std::int64_t>(size_bytes(x.dtype()));
  if (x.device().is_cuda())
    cuda::copy(x.device(), nest, y.raw_data(), y.dtype(), src, x.dtype(), where);
  else
    cpu::copy(nest, y.raw_data(), y.dtype(), src, x.dtype());
  return y;
}

}  // namespace ringrad::kernels
