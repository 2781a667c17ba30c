#include "ringrad/autograd/norm/recorded_norm.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"

namespace ringrad {
namespace {

Tensor mean_of(const Tensor& lines) { return mean(lines, {-1}, true); }

Tensor without_mean(const Tensor& lines) { return lines - mean_of(lines); }

}  // namespace

Tensor widened(const Tensor& x) { return size_bytes(x.dtype()) == 2 ? to(x, DType::float32) : x; }

DType dtype_or(const Tensor& parameter, const Tensor& x) {
  return parameter.defined() ? parameter.dtype() : x.dtype();
}

RecordedNorm::RecordedNorm(const Tensor& lines, double eps, bool is_centred)
    : is_centred(is_centred) {
  // Twice, since the first mean is rounded.
  const Tensor centred = is_centred ? without_mean(without_mean(lines)) : lines;
  rstd = rsqrt(mean_of(square(centred)) + eps);
  xhat = centred * rstd;
}

Tensor RecordedNorm::gradient(const Tensor& g) const {
  return rstd * ((is_centred ? without_mean(g) : g) - xhat * mean_of(g * xhat));
}

}  // namespace ringrad
