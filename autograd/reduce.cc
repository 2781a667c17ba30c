#include "ringrad/autograd/reduce.h"

#include <algorithm>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/reduce/argmax.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {
namespace {

// The axes that a reduction removed: what its gradient needs to know.
class Reduced {
 public:
  Reduced(const Tensor& x, const Shape& axes, Where where) : shape_(x.shape()), kept_(x.shape()) {
    const unsigned mask = axes_mask("reduce", axes, x.dims(), where);
    for (int i = 0; i < x.dims(); ++i)
      if (mask >> i & 1u) kept_[i] = 1;
  }

  /// Elements per result.
  std::int64_t count() const { return shape_.numel() / std::max<std::int64_t>(1, kept_.numel()); }

  /// A result, or its gradient, with the reduced axes restored as ones.
  Tensor restored(const Tensor& result) const { return reshape(result, kept_); }

  /// The same in x's shape.
  Tensor spread(const Tensor& result) const { return expand(restored(result), shape_); }

 private:
  Shape shape_, kept_;
};

// max or min: the chosen elements share the gradient equally. If there are NaNs, they are the
// chosen elements.
Tensor record_choice(const char* name, const Tensor& x, const Shape& axes, Tensor y, Where where) {
  if (needs_grad(x))
    record(name, where, y, {&x},
           [x = save(x), y = save_output(y),
            reduced = Reduced(x, axes, where)](BackwardContext& context) {
             const Tensor result = reduced.restored(y.get());
             const Tensor chosen = logical_or(eq(x.get(), result), isnan(x.get()));
             const Tensor ties = to(kernels::sum_to(chosen, result.shape()), result.dtype());
             const Tensor part = reduced.restored(context.grad_output()) / ties;
             context.set(0, ringrad::where(chosen, part, 0));
           });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  Tensor y = kernels::sum(x, axes, keepdim, where);
  if (needs_grad(x))
    record("sum", where, y, {&x}, [reduced = Reduced(x, axes, where)](BackwardContext& context) {
      context.set(0, reduced.spread(context.grad_output()));
    });
  return y;
}

Tensor mean(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  Tensor y = kernels::mean(x, axes, keepdim, where);
  if (needs_grad(x))
    record("mean", where, y, {&x}, [reduced = Reduced(x, axes, where)](BackwardContext& context) {
      context.set(0, reduced.spread(context.grad_output() / reduced.count()));
    });
  return y;
}

// d var / d x = 2 (x - mean) / (n - correction): the mean's own dependence on x cancels, since
// deviations sum to 0.
Tensor var(const Tensor& x, const Shape& axes, std::int64_t correction, bool keepdim, Where where) {
  Tensor y = kernels::var(x, axes, correction, keepdim, where);
  if (needs_grad(x))
    record("var", where, y, {&x},
           [x = save(x), axes, correction,
            reduced = Reduced(x, axes, where)](BackwardContext& context) {
             const auto divisor =
                 static_cast<double>(std::max<std::int64_t>(0, reduced.count() - correction));
             const Tensor deviation = x.get() - mean(x.get(), axes, true);
             context.set(0, deviation * (reduced.restored(context.grad_output()) * (2 / divisor)));
           });
  return y;
}

Tensor max(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  return record_choice("max", x, axes, kernels::max(x, axes, keepdim, where), where);
}

Tensor min(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  return record_choice("min", x, axes, kernels::min(x, axes, keepdim, where), where);
}

Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim, Where where) {
  return kernels::argmax(x, axis, keepdim, where);
}

Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim, Where where) {
  return kernels::argmin(x, axis, keepdim, where);
}

}  // namespace ringrad
