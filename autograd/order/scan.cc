#include "ringrad/autograd/order/scan.h"

#include <vector>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/shape/pad.h"
#include "ringrad/kernels/order/scan.h"

namespace ringrad {
namespace {

using kernels::ScanOp;

// y[i] = x[i - 1], with `first` for y[0]; or, if reversed, y[i] = x[i + 1] with `first` at the end.
Tensor delayed(const Tensor& x, std::int64_t axis, bool reversed, Scalar first) {
  if (x.dims() == 0) return full_like(x, first);
  const int a = normalize_axis("scan", axis, x.dims(), Where::current());
  if (x.shape()[a] == 0) return x;
  std::vector<std::int64_t> amounts(2 * static_cast<std::size_t>(x.dims() - a), 0);
  amounts[amounts.size() - 2] = reversed ? -1 : 1;
  amounts[amounts.size() - 1] = reversed ? 1 : -1;
  return pad(x, amounts, PadMode::constant, first);
}

Tensor running_sum(const Tensor& x, std::int64_t axis, bool reversed, Where where) {
  return record_linear(
      "cumsum", where, kernels::scan(ScanOp::sum, x, axis, reversed, where), x,
      [=](const Tensor& grad) { return running_sum(grad, axis, !reversed, where); });
}

// y[i] = a[i] y[i - 1] + b[i]. Its gradient r is such a recurrence in the other direction:
//
//     r[i] = grad[i] + a[i + 1] r[i + 1]          grad_a[i] = r[i] y[i - 1]          grad_b = r
Tensor recurrence(const Tensor& a, const Tensor& b, std::int64_t axis, bool reversed, Where where) {
  Tensor y = kernels::recurrence(a, b, axis, reversed, where);
  if (needs_grad(a, b))
    record("recurrence", where, y, {&a, &b},
           [a = save(a), b = save(b), axis, reversed, where](BackwardContext& context) {
             const Tensor factors = delayed(a.get(), axis, !reversed, 0);
             const Tensor r = recurrence(factors, context.grad_output(), axis, !reversed, where);
             if (context.needs(0)) {
               const Tensor again = recurrence(a.get(), b.get(), axis, reversed, where);
               context.set(0, r * delayed(again, axis, reversed, 0));
             }
             if (context.needs(1)) context.set(1, r);
           });
  return y;
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t axis, Where where) {
  return running_sum(x, axis, false, where);
}

// With p[i] = x[0] ... x[i - 1], the sum of grad[k] dy[k]/dx[i] over k >= i is
//
//     grad_x[i] = p[i] s[i]          s[i] = grad[i] + x[i + 1] s[i + 1]
Tensor cumprod(const Tensor& x, std::int64_t axis, Where where) {
  Tensor y = kernels::scan(ScanOp::product, x, axis, false, where);
  if (needs_grad(x))
    record("cumprod", where, y, {&x}, [x = save(x), axis, where](BackwardContext& context) {
      const Tensor p = cumprod(delayed(x.get(), axis, false, 1), axis, where);
      const Tensor s =
          recurrence(delayed(x.get(), axis, true, 0), context.grad_output(), axis, true, where);
      context.set(0, p * s);
    });
  return y;
}

}  // namespace ringrad
