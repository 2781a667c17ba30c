#include "ringrad/core/check_fits.h"

#include <cmath>
#include <limits>

namespace ringrad {

void check_fits(const char* operation, Scalar number, DType dtype, Where where) {
  const bool fits = dispatch_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
      return true;
    } else if (number.is_floating()) {
      constexpr double kEnd = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2;
      const double whole = std::trunc(number.to<double>());
      return whole >= static_cast<double>(std::numeric_limits<T>::min()) && whole < kEnd;
    } else {
      const auto value = number.to<std::int64_t>();
      return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
    }
  });
  if (fits) return;
  const std::string text =
      number.is_floating() ? concat(number.to<double>()) : concat(number.to<std::int64_t>());
  throw ValueError(
      concat(operation, ": the number must fit the tensor's dtype; got ", text, " and ", dtype),
      where);
}

}  // namespace ringrad
