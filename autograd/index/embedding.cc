#include "ringrad/autograd/index/embedding.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/index/embedding.h"

namespace ringrad {
namespace {

constexpr std::int64_t kNoPadding = -1;

// The sum of each row's gradients, 0 for the padding. It is linear in `grad`, and the adjoint of a
// look-up with zeros at the padding.
Tensor sum_by_row(const Tensor& grad, const Tensor& indices, std::int64_t num_rows,
                  std::int64_t padding_index) {
  const Where where = Where::current();
  Tensor y = kernels::embedding_backward(grad, indices, num_rows, padding_index, where);
  if (needs_grad(grad))
    record("embedding_backward", where, y, {&grad},
           [indices = save(indices), padding_index](BackwardContext& context) {
             const Tensor vectors = embedding(context.grad_output(), indices.get());
             const bool has_padding = padding_index != kNoPadding;
             context.set(
                 0, has_padding
                        ? ringrad::where(unsqueeze(indices.get() != padding_index, -1), vectors, 0)
                        : vectors);
           });
  return y;
}

Tensor look_up(const Tensor& weight, const Tensor& indices, std::int64_t padding_index,
               Where where) {
  Tensor y = kernels::embedding(weight, indices, where);
  if (needs_grad(weight))
    record("embedding", where, y, {&weight},
           [indices = save(indices), num_rows = weight.shape()[0],
            padding_index](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             const Tensor destination = context.destination(0);
             if (grad_enabled() || !destination.defined() || !destination.is_contiguous())
               return context.set(0, sum_by_row(grad, indices.get(), num_rows, padding_index));
             kernels::embedding_backward(grad, indices.get(), padding_index, destination);
             context.set(0, destination);
           });
  return y;
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, Where where) {
  return look_up(weight, indices, kNoPadding, where);
}

Tensor embedding(const Tensor& weight, const Tensor& indices, std::int64_t padding_index,
                 Where where) {
  RINGRAD_CHECK(weight.dims() > 0 && padding_index >= 0 && padding_index < weight.shape()[0],
                IndexError, where, "embedding: padding_index must be a row of weight; got ",
                padding_index, " for weight ", weight.shape());
  return look_up(weight, indices, padding_index, where);
}

}  // namespace ringrad
