#include "ringrad/core/simd.h"
#include "ringrad/kernels/elementwise/dropout.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

template <class T>
RINGRAD_CLONES void select(const T* x, const std::uint8_t* mask, MathType<T> scale,
                           std::int64_t begin, std::int64_t end, T* y) {
  for (std::int64_t i = begin; i < end; ++i) {
    const MathType<T> scaled = static_cast<MathType<T>>(x[i]) * scale;
    y[i] = static_cast<T>(mask[i] != 0 ? scaled : MathType<T>{0});
  }
}

}  // namespace

void apply_mask(const Tensor& x, const Tensor& mask, double scale, const Tensor& y) {
  constexpr std::int64_t kGrain = 1 << 15;
  dispatch_floating(x.dtype(), [&]<class T>() {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    const std::uint8_t* keep = mask.data<std::uint8_t>();
    const auto factor = static_cast<MathType<T>>(scale);
    parallel_for(x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      select(from, keep, factor, begin, end, to);
    });
  });
}

}  // namespace ringrad::kernels::cpu
