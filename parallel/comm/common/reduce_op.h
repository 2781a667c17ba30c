// ReduceOp: how a reduction combines the contributions of the ranks.

#pragma once

#include <cstdint>
#include <iosfwd>

namespace ringrad {

/// mean = sum / world_size, for floating dtypes. On bool, product and min are "all", max is "any".
enum class ReduceOp : std::uint8_t { sum, mean, product, min, max };

/// "sum", "mean", and so on.
const char* name(ReduceOp op);
std::ostream& operator<<(std::ostream& out, ReduceOp op);

}  // namespace ringrad
