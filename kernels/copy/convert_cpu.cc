// Converts between every pair of dtypes with one loop over neighbouring elements.

#include "ringrad/core/simd.h"
#include "ringrad/kernels/copy/convert.h"
#include "ringrad/kernels/copy/copy_cpu.h"

namespace ringrad::kernels::cpu {
namespace {

template <class To, class From>
RINGRAD_CLONES void convert_elements(std::byte* dst, const std::byte* src, std::int64_t n) {
  auto* __restrict to = reinterpret_cast<To*>(dst);
  const auto* __restrict from = reinterpret_cast<const From*>(src);
  for (std::int64_t i = 0; i < n; ++i) to[i] = convert<To>(from[i]);
}

}  // namespace

ConvertRow convert_row(DType to, DType from) {
  return dispatch_dtype(to, [&]<class To>() {
    return dispatch_dtype(from,
                          []<class From>() -> ConvertRow { return convert_elements<To, From>; });
  });
}

}  // namespace ringrad::kernels::cpu
