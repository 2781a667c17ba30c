#include "ringrad/autograd/attention/alibi.h"

#include <bit>
#include <cmath>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/transfer.h"

namespace ringrad {

Tensor alibi_slopes(std::int64_t heads, Where where) {
  RINGRAD_CHECK(heads > 0, ValueError, where, "alibi_slopes: heads must be positive; got ", heads);
  const auto n = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto slope = [](std::int64_t i, std::int64_t count) {
    return static_cast<float>(std::exp2(-8. * static_cast<double>(i) / static_cast<double>(count)));
  };
  const Device host = default_device().is_cpu() ? default_device() : Device();
  const Tensor slopes = empty({heads}, {.device = host}, where);
  for (std::int64_t i = 0; i < heads; ++i)
    slopes.data<float>()[i] = i < n ? slope(i + 1, n) : slope(2 * (i - n) + 1, 2 * n);
  return to_device(slopes, default_device(), where);
}

Tensor alibi_bias(std::int64_t heads, std::int64_t T, std::int64_t S, Where where) {
  RINGRAD_CHECK(T >= 0 && S >= 0, ShapeError, where,
                "alibi_bias: extents must not be negative; got ", T, " and ", S);
  const Tensor slopes = reshape(alibi_slopes(heads, where), {heads, 1, 1}, where);
  const Tensor queries = unsqueeze(arange(S - T, S, 1, where), 1, where);
  const Tensor distances = abs(sub(queries, arange(S, where), where), where);
  return mul(to(distances, DType::float32, where), neg(slopes, where), where);
}

}  // namespace ringrad
