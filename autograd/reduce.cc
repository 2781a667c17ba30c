#include "ringrad/autograd/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/reduce/argmax.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {
namespace {

// The axes that a reduction removed: what its gradient needs to know.
class Reduced {
 public:
  Reduced(const Tensor& x, const Shape& axes, Where where, const char* operation = "reduce")
      : shape_(x.shape(where)), kept_(x.shape()) {
    mask_ = axes_mask(operation, axes, x.dims(), where);
    for (int i = 0; i < x.dims(); ++i)
      if (mask_ >> i & 1u) kept_[i] = 1;
  }

  /// Elements per result.
  std::int64_t count() const {
    std::int64_t product = 1;
    for (int i = 0; i < shape_.size(); ++i)
      if (mask_ >> i & 1u) product *= shape_[i];
    return product;
  }

  /// The result's shape.
  Shape shape(bool keepdim) const {
    Shape shape;
    for (int i = 0; i < shape_.size(); ++i)
      if (keepdim || !(mask_ >> i & 1u)) shape.push_back(kept_[i]);
    return shape;
  }

  /// A result, or its gradient, with the reduced axes restored as ones.
  Tensor restored(const Tensor& result) const { return reshape(result, kept_); }

  /// The same in x's shape.
  Tensor spread(const Tensor& result) const { return expand(restored(result), shape_); }

  /// x with the elements of each result along one last axis.
  Tensor gathered(const Tensor& x) const {
    Shape extents = shape(false);
    extents.push_back(count());
    return reshape(permute(x, order()), extents);
  }

  /// The inverse of gathered().
  Tensor scattered(const Tensor& x) const {
    const Shape from = order();
    Shape extents, back = from;
    for (int i = 0; i < from.size(); ++i) {
      extents.push_back(shape_[static_cast<int>(from[i])]);
      back[static_cast<int>(from[i])] = i;
    }
    return permute(reshape(x, extents), back);
  }

 private:
  // The axes that stay, then those that do not.
  Shape order() const {
    Shape axes;
    for (const unsigned reduced : {0u, 1u})
      for (int i = 0; i < shape_.size(); ++i)
        if ((mask_ >> i & 1u) == reduced) axes.push_back(i);
    return axes;
  }

  Shape shape_, kept_;
  unsigned mask_;
};

bool is_16_bit(const Tensor& x) { return is_floating(x.dtype()) && size_bytes(x.dtype()) == 2; }

// For each element along the last axis, the product of the others. Halves are multiplied pairwise,
// and the products of the others of a pair, times the one, are those of the other:
//
//     x        a0 a1 | b0 b1        pairs  p0 = a0 b0, p1 = a1 b1
//     others   q0 b0, q1 b1, q0 a0, q1 a1    where q0, q1 are the others' products of the pairs
Tensor product_of_others(const Tensor& x) {
  const std::int64_t n = x.shape().back(), half = n / 2;
  if (n <= 1) return ones_like(x);
  const Tensor a = slice(x, -1, 0, half), b = slice(x, -1, half, 2 * half);
  if (n % 2 == 0) {
    const Tensor q = product_of_others(a * b);
    return concatenate({q * b, q * a}, -1);
  }
  const Tensor q = product_of_others(concatenate({a * b, slice(x, -1, n - 1)}, -1));
  const Tensor of_pairs = slice(q, -1, 0, half);
  return concatenate({of_pairs * b, of_pairs * a, slice(q, -1, half)}, -1);
}

// Gradients of the Euclidean norm and the standard deviation y of the deviations d: grad d / y,
// over `divisor`, and 0 where y is 0. d is divided first, because grad / y may overflow. No
// quotient by 0 is formed: its own derivative would be NaN.
Tensor root_gradient(const Tensor& grad, const Tensor& y, const Tensor& d, double divisor) {
  const DType wide = math_dtype(y.dtype());
  const Tensor root = to(y, wide);
  const Tensor part = where(root == 0, 0, to(grad, wide) / divisor);
  return to(d / where(root == 0, 1, root) * part, y.dtype());
}

Tensor euclidean_norm(const Tensor& x, const Shape& axes, bool keepdim, const Reduced& reduced,
                      Where where) {
  Tensor y = kernels::norm(x, axes, keepdim, where);
  if (needs_grad(x))
    record("vector_norm", where, y, {&x},
           [x = save(x), y = save_output(y), reduced](BackwardContext& context) {
             context.set(0, root_gradient(reduced.restored(context.grad_output()),
                                          reduced.restored(y.get()), x.get(), 1));
           });
  return y;
}

Tensor count_nonzero(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  Tensor y = kernels::cast(kernels::sum(ne(x, 0, where), axes, keepdim, where), x.dtype(), where);
  if (needs_grad(x))
    record("vector_norm", where, y, {&x},
           [x = save(x)](BackwardContext& context) { context.set(0, zeros_like(x.get())); });
  return y;
}

// |x| is divided by its largest element, for p < 0 by its smallest one, so that no power exceeds 1.
// The gradient is sign(x) (|x| / y)^(p - 1). Where x or y is 0 this may be infinite or no number;
// 1 / 1 takes the place of |x| / y there, so that second derivatives are numbers as well.
Tensor norm_of_order(const Tensor& x, double p, const Shape& axes, bool keepdim,
                     const Reduced& reduced, Where where) {
  Tensor y;
  if (reduced.count() == 0) {
    y = zeros(reduced.shape(keepdim), {.dtype = x.dtype(), .device = x.device()}, where);
  } else {
    const NoGradGuard guard;
    const Tensor size = abs(x, where);
    const Tensor most =
        p > 0 ? kernels::max(size, axes, true, where) : kernels::min(size, axes, true, where);
    const Tensor scale = ringrad::where(logical_and(isfinite(most), most > 0), most, 1);
    const Tensor total = kernels::sum(pow(size / scale, p), axes, true, where);
    y = reshape(pow(total, 1 / p) * scale, reduced.shape(keepdim), where);
  }
  if (needs_grad(x))
    record("vector_norm", where, y, {&x},
           [x = save(x), y = save_output(y), reduced, p](BackwardContext& context) {
             const Tensor norm = reduced.spread(y.get());
             const Tensor is_zero = logical_or(x.get() == 0, norm == 0);
             const Tensor ratio =
                 ringrad::where(is_zero, 1, abs(x.get())) / ringrad::where(is_zero, 1, norm);
             const Tensor slope = ringrad::where(is_zero, 0, sign(x.get()) * pow(ratio, p - 1));
             context.set(0, reduced.spread(context.grad_output()) * slope);
           });
  return y;
}

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

// any and all: the largest or smallest truth value; of none, `of_none`.
Tensor decide(const char* name, Tensor (*choose)(const Tensor&, const Shape&, bool, Where),
              bool of_none, const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  const Reduced reduced(x, axes, where, name);
  if (x.numel() == 0)
    return full(reduced.shape(keepdim), of_none, {.dtype = DType::bool_, .device = x.device()},
                where);
  return choose(x.dtype() == DType::bool_ ? x : ne(x, 0, where), axes, keepdim, where);
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

Tensor stddev(const Tensor& x, const Shape& axes, std::int64_t correction, bool keepdim,
              Where where) {
  check_floating("stddev", x, where);
  if (is_16_bit(x))  // a mean rounded to 16 bits is too inexact for the gradient
    return to(stddev(to(x, DType::float32, where), axes, correction, keepdim, where), x.dtype(),
              where);
  Tensor y = kernels::stddev(x, axes, correction, keepdim, where);
  if (needs_grad(x))
    record("stddev", where, y, {&x},
           [x = save(x), y = save_output(y), axes, correction,
            reduced = Reduced(x, axes, where)](BackwardContext& context) {
             const auto divisor =
                 static_cast<double>(std::max<std::int64_t>(0, reduced.count() - correction));
             context.set(0, root_gradient(reduced.restored(context.grad_output()),
                                          reduced.restored(y.get()),
                                          x.get() - mean(x.get(), axes, true), divisor));
           });
  return y;
}

Tensor prod(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  Tensor y = kernels::prod(x, axes, keepdim, where);
  if (needs_grad(x))
    record("prod", where, y, {&x},
           [x = save(x), reduced = Reduced(x, axes, where)](BackwardContext& context) {
             // A product of some factors may leave the range of their dtype.
             const Tensor wide = to(x.get(), DType::float64);
             const Tensor others = reduced.scattered(product_of_others(reduced.gathered(wide)));
             context.set(0, to(reduced.spread(context.grad_output()) * others, x.get().dtype()));
           });
  return y;
}

Tensor logsumexp(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  check_floating("logsumexp", x, where);
  if (is_16_bit(x))
    return to(logsumexp(to(x, DType::float32, where), axes, keepdim, where), x.dtype(), where);
  const Reduced reduced(x, axes, where, "logsumexp");
  Tensor y;
  {
    const NoGradGuard guard;
    if (reduced.count() == 0) {
      y = full(reduced.shape(keepdim), -std::numeric_limits<double>::infinity(),
               {.dtype = x.dtype(), .device = x.device()}, where);
    } else {
      const Tensor largest = kernels::max(x, axes, true, where);
      const Tensor origin = ringrad::where(isfinite(largest), largest, 0);
      const Tensor total = kernels::sum(exp(x - origin), axes, true, where);
      y = reshape(log(total) + origin, reduced.shape(keepdim), where);
    }
  }
  if (needs_grad(x))
    record("logsumexp", where, y, {&x},
           [x = save(x), y = save_output(y), reduced](BackwardContext& context) {
             context.set(0, reduced.spread(context.grad_output()) *
                                exp(x.get() - reduced.restored(y.get())));
           });
  return y;
}

Tensor vector_norm(const Tensor& x, double order, const Shape& axes, bool keepdim, Where where) {
  check_floating("vector_norm", x, where);
  RINGRAD_CHECK(order == order, ValueError, where, "vector_norm: the order must be a number; got ",
                order);
  const Reduced reduced(x, axes, where, "vector_norm");
  const bool needs_element = order < 0 || std::isinf(order);
  RINGRAD_CHECK(!needs_element || reduced.count() > 0, ShapeError, where, "vector_norm: of order ",
                order, " needs an element; got shape ", x.shape(), " and axes ", axes);
  if (order == 1) return sum(abs(x, where), axes, keepdim, where);
  if (std::isinf(order))
    return order > 0 ? max(abs(x, where), axes, keepdim, where)
                     : min(abs(x, where), axes, keepdim, where);
  if (order == 2) return euclidean_norm(x, axes, keepdim, reduced, where);
  if (is_16_bit(x))
    return to(vector_norm(to(x, DType::float32, where), order, axes, keepdim, where), x.dtype(),
              where);
  if (order == 0) return count_nonzero(x, axes, keepdim, where);
  return norm_of_order(x, order, axes, keepdim, reduced, where);
}

Tensor any(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  return decide("any", kernels::max, false, x, axes, keepdim, where);
}

Tensor all(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  return decide("all", kernels::min, true, x, axes, keepdim, where);
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
