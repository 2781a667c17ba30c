#include "ringrad/core/scalar.h"

namespace ringrad {

void Scalar::throw_above_int64(std::uint64_t value, Where where) {
  throw ValueError(concat("number: an integer must be at most ",
                          std::numeric_limits<std::int64_t>::max(), "; got ", value),
                   where);
}

void Scalar::throw_does_not_fit(std::int64_t low, std::uint64_t high, Where where) const {
  throw ValueError(concat("number: as an integer of the type asked for it must be in [", low, ", ",
                          high, "]; got ", is_floating() ? concat(real_) : concat(integer_)),
                   where);
}

}  // namespace ringrad
