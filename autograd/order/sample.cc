#include "ringrad/autograd/order/sample.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/order/scan.h"
#include "ringrad/autograd/order/sort.h"
#include "ringrad/autograd/reduce.h"

namespace ringrad {
namespace {

// True if all elements are; waits for a GPU.
bool all_true(const Tensor& x, Where where) {
  return x.numel() == 0 || min(x, {}, false, where).item<bool>(where);
}

}  // namespace

Tensor bernoulli(const Tensor& x, Generator& generator, Where where) {
  const NoGradGuard guard;
  check_floating("bernoulli", x, where);
  RINGRAD_CHECK(all_true(logical_and(ge(x, 0, where), le(x, 1, where), where), where), ValueError,
                where, "bernoulli: probabilities must be in [0, 1]; got another one");
  const Tensor drawn = empty_like(x, math_dtype(x.dtype()), where);
  uniform_(drawn, 0, 1, generator, where);
  return to(lt(drawn, x, where), x.dtype(), where);
}

Tensor multinomial(const Tensor& weights, std::int64_t num_samples, bool replacement,
                   Generator& generator, Where where) {
  const NoGradGuard guard;
  check_floating("multinomial", weights, where);
  RINGRAD_CHECK(weights.dims() == 1 || weights.dims() == 2, ShapeError, where,
                "multinomial: weights must be (N) or (B, N); got ", weights.shape());
  RINGRAD_CHECK(num_samples > 0, ValueError, where,
                "multinomial: the number of samples must be positive; got ", num_samples);
  const Tensor w = to(weights, DType::float64, where);
  RINGRAD_CHECK(all_true(logical_and(ge(w, 0, where), isfinite(w, where), where), where),
                ValueError, where,
                "multinomial: weights must be finite and not negative; got another one");
  const Tensor positive = sum(gt(w, 0, where), {-1}, true, where);
  const std::int64_t needed = replacement ? 1 : num_samples;
  RINGRAD_CHECK(all_true(ge(positive, needed, where), where), ValueError, where,
                "multinomial: each row must have at least ", needed,
                " positive weights; got fewer of ", weights.size(-1));
  if (!replacement) {
    const Tensor waiting = empty_like(w, where);
    exponential_(waiting, 1, generator, where);
    // Logarithms order the quotients as well, and none is too large or too small for them.
    const Tensor keys = sub(log(w, where), log(waiting, where), where);
    return topk(keys, num_samples, -1, true, where).second;
  }
  // With a largest weight of 1 the sum is finite, and its product with a place below 1 is smaller.
  const Tensor scaled = div(w, max(w, {-1}, true, where), where);
  const Tensor sums = cumsum(scaled, -1, where), total = slice(sums, -1, -1, w.size(-1), 1, where);
  Shape shape = w.shape();
  shape[w.dims() - 1] = num_samples;
  const Tensor places =
      uniform(0, 1, shape, {.dtype = DType::float64, .device = w.device()}, generator, where);
  return searchsorted(sums, mul(places, total, where), true, where);
}

}  // namespace ringrad
