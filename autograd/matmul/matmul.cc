#include "ringrad/autograd/matmul/matmul.h"

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/matmul/matmul.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {
namespace {

Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }

// Writes the product into `destination`, if defined, else into fresh memory.
Tensor product(const Tensor& a, const Tensor& b, const Tensor& destination) {
  if (!destination.defined()) return kernels::matmul(a, b);
  kernels::matmul_out(a, b, {}, destination);
  return destination;
}

// Gradients of a fused linear layer on the matrices x (M, K) and grad (M, N).
void linear_backward(BackwardContext& context, const Tensor& grad, const Tensor& x,
                     const Tensor& weight) {
  if (context.needs(0)) context.set(0, kernels::matmul(grad, weight));
  if (context.needs(1))
    context.set(1, product(view::transpose(grad, 0, 1), x, context.destination(1)));
  if (context.needs(2)) context.set(2, kernels::sum_to(grad, {grad.shape()[1]}));
}

// The same, composed of recorded operators.
void linear_backward_recorded(BackwardContext& context, const Tensor& grad, const Tensor& x,
                              const Tensor& weight) {
  if (context.needs(0)) context.set(0, matmul(grad, weight));
  if (context.needs(1)) context.set(1, matmul(transposed(grad), x));
  if (context.needs(2)) context.set(2, sum(grad, {0}));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, Where where) {
  if (autocasting())
    return with_narrowed(
        where, [&](auto&... narrow) { return matmul(narrow..., where); }, a, b);
  RINGRAD_CHECK(a.dims(where) >= 1 && b.dims(where) >= 1, ShapeError, where,
                "matmul: both sides must have at least one axis; got ", a.shape(), " and ",
                b.shape());
  if (a.dims() == 1)
    return squeeze(matmul(unsqueeze(a, 0, where), b, where), {b.dims() == 1 ? 0 : -2}, where);
  if (b.dims() == 1) return squeeze(matmul(a, unsqueeze(b, 1, where), where), {-1}, where);

  Tensor y = kernels::matmul(a, b, {}, where);
  if (needs_grad(a, b))
    record("matmul", where, y, {&a, &b},
           [a = save_if(b.requires_grad(), a), b = save_if(a.requires_grad(), b),
            a_shape = a.shape(), b_shape = b.shape()](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             if (context.needs(0))
               context.set(0, sum_to(matmul(grad, transposed(b.get())), a_shape));
             if (context.needs(1))
               context.set(1, sum_to(matmul(transposed(a.get()), grad), b_shape));
           });
  return y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu, Where where) {
  if (autocasting())
    return with_narrowed(
        where, [&](auto&... narrow) { return linear(narrow..., relu, where); }, x, weight, bias);
  RINGRAD_CHECK(
      weight.dims(where) == 2 && x.dims(where) >= 1 && x.shape().back() == weight.shape()[1],
      ShapeError, where, "linear: x (..., K) and weight (N, K) must share K; got ", x.shape(),
      " and ", weight.shape());
  const std::int64_t outputs = weight.shape()[0], features = weight.shape()[1];
  Shape y_shape = x.shape();
  y_shape[x.dims() - 1] = outputs;
  std::int64_t num_rows = 1;  // not x.numel() / features, which may be 0 / 0
  for (int i = 0; i + 1 < x.dims(); ++i) num_rows *= x.shape()[i];
  // A matrix of all rows. The reshape is recorded only if it copies a strided x, which cannot
  // happen with two axes.
  const Tensor rows = x.dims() == 2 ? x : reshape(x, {num_rows, features}, where);

  const Tensor matrix =
      kernels::matmul(rows, view::transpose(weight, 0, 1), {.bias = bias, .relu = relu}, where);
  Tensor y = x.dims() == 2 ? matrix : view::reshape(matrix, y_shape, where);
  if (needs_grad(rows, weight, bias))
    record(
        "linear", where, y, {&rows, &weight, &bias},
        [x = save_if(weight.requires_grad(), rows), weight = save_if(rows.requires_grad(), weight),
         y = relu ? save_output(y) : SavedTensor(),
         rows_shape = matrix.shape()](BackwardContext& context) {
          Tensor grad = context.grad_output();
          if (y.defined()) grad = relu_gradient(grad, y.get());
          grad = reshape(grad, rows_shape);
          const auto backward = grad_enabled() ? linear_backward_recorded : linear_backward;
          backward(context, grad, x.get(), weight.get());
        });
  return y;
}

}  // namespace ringrad
