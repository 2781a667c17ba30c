#include "ringrad/core/check_fits.h"

#include <cmath>

namespace ringrad {

void check_fits(const char* operation, Scalar number, DType dtype, Where where) {
  if (dispatch_dtype(dtype, [&]<class T>() { return number.fits<T>(); })) return;
  const std::string text =
      number.is_floating() ? concat(number.to<double>()) : concat(number.to<std::int64_t>());
  throw ValueError(
      concat(operation, ": the number must fit the tensor's dtype; got ", text, " and ", dtype),
      where);
}

void check_finite(const char* operation, const char* what, double number, Where where) {
  RINGRAD_CHECK(std::isfinite(number), ValueError, where, operation, ": ", what,
                " must be finite; got ", number);
}

}  // namespace ringrad
