#include "ringrad/autograd/linalg/factor.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/linalg/matrices.h"
#include "ringrad/autograd/linalg/solve.h"
#include "ringrad/autograd/matmul/matmul.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/shape/diagonal.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/linalg/lapack.h"

namespace ringrad::linalg {
namespace {

// LAPACK counts its workspace in 32 bits, and takes a number that wraps around for enough.
void check_workspace(const char* operation, std::int64_t extent, double numbers, Where where) {
  RINGRAD_CHECK(numbers <= std::numeric_limits<std::int32_t>::max(), ShapeError, where, operation,
                ": LAPACK's workspace must be below 2^31 numbers; got matrices of extent ", extent,
                ", which need ", static_cast<std::int64_t>(numbers));
}

Tensor symmetric(const Tensor& x) { return (x + transposed(x)) / 2; }
Tensor antisymmetric(const Tensor& x) { return x - transposed(x); }

// x[j] - x[i] in row i and column j, and 1 on the diagonal.
Tensor differences(const Tensor& x) {
  const Tensor diagonal = eye(x.size(-1), {.dtype = DType::bool_, .device = x.device()});
  return where(diagonal, 1, unsqueeze(x, -2) - unsqueeze(x, -1));
}

// The sum of those that are defined.
Tensor plus(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

Tensor qr_gradient(const Tensor& grad_q, const Tensor& grad_r, const Tensor& q, const Tensor& r) {
  Tensor inner;
  if (grad_r.defined()) inner = matmul(r, transposed(grad_r));
  if (grad_q.defined()) inner = plus(inner, -matmul(transposed(grad_q), q));
  const Tensor mirrored = tril(inner) + transposed(tril(inner, -1));
  const Tensor grad = plus(grad_q, matmul(q, mirrored));
  return transposed(solve(r, transposed(grad)));
}

// The part within the spaces that u and v span, and those of grad_u and grad_vh outside of them.
Tensor svd_gradient(const Tensor& grad_u, const Tensor& grad_s, const Tensor& grad_vh,
                    const Tensor& u, const Tensor& s, const Tensor& vh) {
  const Tensor gaps = differences(square(s));
  const Tensor rows = unsqueeze(s, -1), columns = unsqueeze(s, -2);
  Tensor inner;
  if (grad_s.defined()) inner = diagonal_matrices(grad_s);
  if (grad_u.defined())
    inner = plus(inner, antisymmetric(matmul(transposed(u), grad_u)) / gaps * columns);
  if (grad_vh.defined())
    inner = plus(inner, antisymmetric(matmul(vh, transposed(grad_vh))) / gaps * rows);
  Tensor grad = matmul(matmul(u, inner), vh);
  if (grad_u.defined() && u.size(-2) > u.size(-1)) {
    const Tensor outside = grad_u - matmul(u, matmul(transposed(u), grad_u));
    grad = grad + matmul(outside / columns, vh);
  }
  if (grad_vh.defined() && vh.size(-1) > vh.size(-2)) {
    const Tensor outside = grad_vh - matmul(matmul(grad_vh, transposed(vh)), vh);
    grad = grad + matmul(u, outside / rows);
  }
  return grad;
}

Tensor eigh_gradient(const Tensor& grad_values, const Tensor& grad_vectors, const Tensor& values,
                     const Tensor& vectors) {
  Tensor inner;
  if (grad_values.defined()) inner = diagonal_matrices(grad_values);
  if (grad_vectors.defined()) {
    const Tensor turned = matmul(transposed(vectors), grad_vectors);
    inner = plus(inner, without_diagonal(turned / differences(values)));
  }
  return symmetric(matmul(matmul(vectors, inner), transposed(vectors)));
}

}  // namespace

Tensor cholesky(const Tensor& x, Where where) {
  check_square("cholesky", x, where);
  const Tensor columns = by_columns(x, where);
  const std::int64_t failed = kernels::lapack::cholesky(columns);
  RINGRAD_CHECK(failed < 0, ValueError, where,
                "cholesky: matrices must be finite and positive definite; got one that is not",
                place_in_batch(x, failed));
  Tensor y = view::transpose(columns, -2, -1, where);
  if (needs_grad(x))
    record("cholesky", where, y, {&x}, [y = save_output(y), where](BackwardContext& context) {
      const Tensor upper = transposed(y.get());
      const Tensor product = matmul(upper, context.grad_output());
      const Tensor inner = (tril(product) + tril(product, -1)) / 2;
      const Tensor left = solve(upper, inner, where);
      context.set(0, symmetric(solve(upper, transposed(left), where)));
    });
  return y;
}

QrResult qr(const Tensor& x, Where where) {
  check_matrices("qr", x, where);
  const std::int64_t m = x.size(-2), n = x.size(-1);
  if (m < n) {  // the first m columns determine q
    const Autocast off(DType::float32);
    const auto [q, first] = qr(slice(x, -1, 0, m, 1, where), where);
    const Tensor rest = matmul(transposed(q), slice(x, -1, m, n, 1, where), where);
    return {q, concatenate({first, rest}, -1, where)};
  }
  const Tensor columns = by_columns(x, where), triangle = empty_batch(x, {n, n}, where);
  kernels::lapack::qr(columns, triangle);
  const std::array<Tensor, 2> y{view::transpose(columns, -2, -1, where),
                                view::transpose(triangle, -2, -1, where)};
  if (needs_grad(x))
    record("qr", where, y, std::array{x},
           [q = save_output(y[0], 0), r = save_output(y[1], 1)](BackwardContext& context) {
             context.set(
                 0, qr_gradient(context.grad_output(0), context.grad_output(1), q.get(), r.get()));
           });
  return {y[0], y[1]};
}

SvdResult svd(const Tensor& x, Where where) {
  check_matrices("svd", x, where);
  const std::int64_t m = x.size(-2), n = x.size(-1), k = std::min(m, n);
  check_workspace("svd", k, 4. * k * k + 7. * k, where);
  const Tensor columns = by_columns(x, where), u = empty_batch(x, {k, m}, where),
               s = empty_batch(x, {k}, where), vt = empty_batch(x, {n, k}, where);
  const std::int64_t failed = kernels::lapack::svd(columns, u, s, vt);
  RINGRAD_CHECK(failed < 0, ValueError, where,
                "svd: matrices must be finite, and the iteration converge; got one that fails",
                place_in_batch(x, failed));
  const std::array<Tensor, 3> y{view::transpose(u, -2, -1, where), s,
                                view::transpose(vt, -2, -1, where)};
  if (needs_grad(x))
    record("svd", where, y, std::array{x},
           [u = save_output(y[0], 0), s = save_output(y[1], 1),
            vh = save_output(y[2], 2)](BackwardContext& context) {
             context.set(0, svd_gradient(context.grad_output(0), context.grad_output(1),
                                         context.grad_output(2), u.get(), s.get(), vh.get()));
           });
  return {y[0], y[1], y[2]};
}

EighResult eigh(const Tensor& x, Where where) {
  check_square("eigh", x, where);
  const auto size = static_cast<double>(x.size(-1));
  check_workspace("eigh", x.size(-1), 1 + 6 * size + 2 * size * size, where);
  const Tensor columns = by_columns(x, where), values = empty_batch(x, {x.size(-1)}, where);
  const std::int64_t failed = kernels::lapack::eigh(columns, values);
  RINGRAD_CHECK(failed < 0, ValueError, where,
                "eigh: matrices must be finite, and the iteration converge; got one that fails",
                place_in_batch(x, failed));
  const std::array<Tensor, 2> y{values, view::transpose(columns, -2, -1, where)};
  if (needs_grad(x))
    record(
        "eigh", where, y, std::array{x},
        [values = save_output(y[0], 0), vectors = save_output(y[1], 1)](BackwardContext& context) {
          context.set(0, eigh_gradient(context.grad_output(0), context.grad_output(1), values.get(),
                                       vectors.get()));
        });
  return {y[0], y[1]};
}

}  // namespace ringrad::linalg
