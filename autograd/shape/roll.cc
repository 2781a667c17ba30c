#include "ringrad/autograd/shape/roll.h"

#include <algorithm>
#include <array>

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/concatenate.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad {
namespace {

// x is [head | tail]; y is [tail | head], where the tail is as long as the shift.
Tensor rolled(const Tensor& x, std::int64_t shift, std::int64_t axis, Where where) {
  const std::int64_t n = x.size(axis, where);
  if (n == 0) return x;
  const std::int64_t length = (shift % n + n) % n;
  if (length == 0) return x;
  const std::array parts = {view::slice(x, axis, n - length, n, 1, where),
                            view::slice(x, axis, 0, n - length, 1, where)};
  return kernels::concatenate(parts, axis, where);
}

}  // namespace

Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes, Where where) {
  if (axes.empty()) {
    RINGRAD_CHECK(shifts.size() == 1, ShapeError, where,
                  "roll: without axes there must be one shift; got ", shifts);
    return reshape(roll(reshape(x, {x.numel(where)}, where), shifts, {0}, where), x.shape(where),
                   where);
  }
  RINGRAD_CHECK(shifts.size() == axes.size(), ShapeError, where,
                "roll: there must be a shift for each axis; got ", shifts, " and axes ", axes);
  Tensor y = x;
  for (int k = 0; k < axes.size(); ++k) y = rolled(y, shifts[k], axes[k], where);
  if (y.is(x)) y = kernels::clone(x, where);
  if (needs_grad(x)) {
    Shape back = shifts;
    for (int k = 0; k < axes.size(); ++k)  // the smallest int64 has no opposite
      back[k] = -(shifts[k] % std::max<std::int64_t>(x.size(axes[k]), 1));
    record("roll", where, y, {&x}, [back, axes](BackwardContext& context) {
      context.set(0, roll(context.grad_output(), back, axes));
    });
  }
  return y;
}

}  // namespace ringrad
