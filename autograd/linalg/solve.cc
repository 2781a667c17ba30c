#include "ringrad/autograd/linalg/solve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/linalg/factor.h"
#include "ringrad/autograd/linalg/matrices.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/linalg/lapack.h"

namespace ringrad::linalg {
namespace {

Tensor with_batch(const Tensor& x, Shape batch, Where where) {
  batch.push_back(x.size(-2));
  batch.push_back(x.size(-1));
  return expand(x, batch, where);
}

struct Factors {
  Tensor lu, pivots;
  std::int64_t singular;  // the first singular element of the batch, or -1

  Factors(const Tensor& x, Where where) : lu(by_columns(x, where)) {
    Shape shape = batch_of(x);
    shape.push_back(x.size(-1));
    pivots = empty(shape, {.dtype = DType::int32, .device = x.device()}, where);
    singular = kernels::lapack::lu(lu, pivots);
  }

  void check(const char* operation, const Tensor& x, Where where) const {
    RINGRAD_CHECK(singular < 0, ValueError, where, operation,
                  ": matrices must be invertible; got a singular one", place_in_batch(x, singular));
  }
};

struct Determinants {
  Tensor value, sign, logarithm;  // (...)

  Determinants(const Tensor& x, Where where)
      : value(empty_batch(x, {}, where)),
        sign(empty_batch(x, {}, where)),
        logarithm(empty_batch(x, {}, where)) {
    const Factors factors(x, where);
    if (x.dtype() == DType::float64)
      multiply_pivots<double>(factors);
    else
      multiply_pivots<float>(factors);
  }

 private:
  // Each exchange of rows multiplies by -1.
  template <class T>
  void multiply_pivots(const Factors& factors) {
    const std::int64_t n = factors.lu.size(-1);
    const T* const lu = factors.lu.data<const T>();
    const std::int32_t* const rows = factors.pivots.data<const std::int32_t>();
    for (std::int64_t element = 0; element < value.numel(); ++element) {
      double product = 1, direction = 1, log = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double pivot = lu[(element * n + i) * n + i];
        if (rows[element * n + i] != i + 1) direction = -direction;
        product *= pivot;
        direction *= pivot > 0 ? 1 : pivot < 0 ? -1 : pivot;  // keeps 0 and NaN
        log += std::log(std::abs(pivot));
      }
      value.data<T>()[element] = static_cast<T>(std::copysign(product, direction));
      sign.data<T>()[element] = static_cast<T>(direction);
      logarithm.data<T>()[element] = static_cast<T>(log);
    }
  }
};

// grad (...) times x^-T (..., n, n)
Tensor times_inverse(const Tensor& grad, const Tensor& x, Where where) {
  return unsqueeze(unsqueeze(grad, -1), -1) * transposed(inv(x, where));
}

// r is the triangle of a's QR factors.
void check_full_rank(const Tensor& r, const Tensor& a, Where where) {
  const std::int64_t n = r.size(-1);
  const double epsilon = r.dtype() == DType::float64 ? std::numeric_limits<double>::epsilon()
                                                     : std::numeric_limits<float>::epsilon();
  const auto longest = static_cast<double>(std::max(a.size(-1), a.size(-2)));
  const std::vector<double> values = r.to_vector<double>();
  for (std::int64_t element = 0; element < batch_of(r).numel(); ++element) {
    bool is_finite = true;
    double largest = 0, smallest = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
      const double size = std::abs(values[static_cast<std::size_t>((element * n + i) * n + i)]);
      is_finite = is_finite && std::isfinite(size);
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
    }
    RINGRAD_CHECK(n == 0 || (is_finite && smallest > epsilon * longest * largest), ValueError,
                  where, "lstsq: matrices must be finite and have full rank; got one that has not",
                  place_in_batch(a, element));
  }
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b, Where where) {
  check_square("solve", a, where);
  if (b.dims(where) == 1) return squeeze(solve(a, unsqueeze(b, 1, where), where), {-1}, where);
  check_matrices("solve", b, where);
  check_same_dtype("solve", a, b, where);
  check_same_device("solve", a, b, where);
  RINGRAD_CHECK(a.size(-1) == b.size(-2), ShapeError, where,
                "solve: both sides must have as many rows; got ", a.shape(), " and ", b.shape());
  const Shape batch = broadcast_shapes("solve", batch_of(a), batch_of(b), where);
  const Tensor left = with_batch(a, batch, where), right = with_batch(b, batch, where);
  const Factors factors(left, where);
  factors.check("solve", left, where);
  const Tensor columns = by_columns(right, where);
  kernels::lapack::solve_lu(factors.lu, factors.pivots, columns);
  Tensor x = view::transpose(columns, -2, -1, where);
  if (needs_grad(left, right))
    record("solve", where, x, {&left, &right},
           [a = save(left), x = save_output(x), where](BackwardContext& context) {
             const Tensor grad_b = solve(transposed(a.get()), context.grad_output(), where);
             if (context.needs(0)) context.set(0, -matmul(grad_b, transposed(x.get())));
             if (context.needs(1)) context.set(1, grad_b);
           });
  return x;
}

Tensor inv(const Tensor& x, Where where) {
  check_square("inv", x, where);
  const Factors factors(x, where);
  factors.check("inv", x, where);
  const Tensor identity = eye(x.size(-1), {.dtype = x.dtype(), .device = x.device()}, where);
  const Tensor columns = by_columns(with_batch(identity, batch_of(x), where), where);
  kernels::lapack::solve_lu(factors.lu, factors.pivots, columns);
  Tensor y = view::transpose(columns, -2, -1, where);
  if (needs_grad(x))
    record("inv", where, y, {&x}, [y = save_output(y)](BackwardContext& context) {
      const Tensor inverse = transposed(y.get());
      context.set(0, -matmul(matmul(inverse, context.grad_output()), inverse));
    });
  return y;
}

Tensor det(const Tensor& x, Where where) {
  check_square("det", x, where);
  Tensor y = Determinants(x, where).value;
  if (needs_grad(x))
    record("det", where, y, {&x},
           [x = save(x), y = save_output(y), where](BackwardContext& context) {
             context.set(0, times_inverse(context.grad_output() * y.get(), x.get(), where));
           });
  return y;
}

SlogdetResult slogdet(const Tensor& x, Where where) {
  check_square("slogdet", x, where);
  const Determinants of_x(x, where);
  SlogdetResult y{of_x.sign, of_x.logarithm};
  if (needs_grad(x))
    record("slogdet", where, y.logabsdet, {&x}, [x = save(x), where](BackwardContext& context) {
      context.set(0, times_inverse(context.grad_output(), x.get(), where));
    });
  return y;
}

Tensor lstsq(const Tensor& a, const Tensor& b, Where where) {
  const Autocast off(DType::float32);  // its products are as exact as LAPACK's part
  check_matrices("lstsq", a, where);
  check_matrices("lstsq", b, where);
  check_same_dtype("lstsq", a, b, where);
  RINGRAD_CHECK(a.size(-2) == b.size(-2), ShapeError, where,
                "lstsq: both sides must have as many rows; got ", a.shape(), " and ", b.shape());
  const bool is_tall = a.size(-2) >= a.size(-1);
  const auto [q, r] = qr(is_tall ? a : transposed(a), where);
  check_full_rank(r, a, where);
  return is_tall ? solve(r, matmul(transposed(q), b, where), where)
                 : matmul(q, solve(transposed(r), b, where), where);
}

}  // namespace ringrad::linalg
