#include "ringrad/autograd/attention/alibi.h"

#include <bit>
#include <cmath>
#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"

namespace ringrad {

Tensor alibi_slopes(std::int64_t heads, Where where) {
  RINGRAD_CHECK(heads > 0, ValueError, where, "alibi_slopes: heads must be positive; got ", heads);
  const auto n = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto slope = [](std::int64_t i, std::int64_t count) {
    return static_cast<float>(std::exp2(-8. * static_cast<double>(i) / static_cast<double>(count)));
  };
  std::vector<float> slopes;
  for (std::int64_t i = 1; i <= n; ++i) slopes.push_back(slope(i, n));
  for (std::int64_t i = 1; n + i <= heads; ++i) slopes.push_back(slope(2 * i - 1, 2 * n));
  return tensor(slopes, where);
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
