#include "ringrad/kernels/attention/rotary_embedding.h"

namespace ringrad::kernels {

Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options, bool inverse, Where where) {
  constexpr const char* kName = "rotary_embedding";
  check_floating(kName, x, where);
  RINGRAD_CHECK(x.dims() >= 2, ShapeError, where, kName, ": x must have at least 2 axes; got ",
                x.shape());
  RINGRAD_CHECK(options.offset >= 0 && options.size >= 0 && options.base > 0, ValueError, where,
                kName, ": offset and size must not be negative, and base positive; got ",
                options.offset, ", ", options.size, " and ", options.base);
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  RINGRAD_CHECK(options.offset <= kMost, ValueError, where, kName,
                ": offset must be at most 2^53, up to which float64 holds all positions; got ",
                options.offset);
  RotaryCall call{x, empty_like(x, where), options, inverse ? -1. : 1.};
  std::int64_t& size = call.options.size;
  if (size == 0) size = x.shape().back();
  RINGRAD_CHECK(size % 2 == 0 && size <= x.shape().back(), ShapeError, where, kName,
                ": an even number of elements must turn, at most those of a row; got ", size,
                " of ", x.shape().back());
  if (x.numel() == 0) return call.y;
  x.device().is_cuda() ? cuda::rotary_embedding(call, where) : cpu::rotary_embedding(call);
  return call.y;
}

}  // namespace ringrad::kernels
