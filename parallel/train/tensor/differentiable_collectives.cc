#include "ringrad/parallel/train/tensor/differentiable_collectives.h"

#include "ringrad/autograd/function.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/parallel/comm/common/call_purpose.h"

namespace ringrad {
namespace {

// Records that `exchange` makes the gradient of x from that of y. A backward pass calls for the
// purpose of the forward call (call_purpose.h).
template <class Exchange>
void record_exchange(const char* name, const Tensor& x, const Tensor& y, Where where,
                     Exchange exchange) {
  if (!needs_grad(x)) return;
  record(name, where, y, {&x},
         [exchange, purpose = PurposeScope::current()](BackwardContext& context) {
           const PurposeScope scope(purpose);
           context.set(0, exchange(context.grad_output()));
         });
}

}  // namespace

Tensor copy_to_ranks(const Tensor& x, Communicator& comm, Where where) {
  if (comm.world_size() == 1 || !needs_grad(x)) return x;
  const Tensor y = view::alias(x, where);
  record_exchange("copy_to_ranks", x, y, where, [comm = &comm, where](const Tensor& grad) {
    return reduce_from_ranks(grad, *comm, where);
  });
  return y;
}

Tensor reduce_from_ranks(const Tensor& x, Communicator& comm, Where where) {
  if (comm.world_size() == 1) return x;
  const Tensor y = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()}, where);
  kernels::copy_(y, x, where);
  comm.all_reduce(y, ReduceOp::sum, where);
  record_exchange("reduce_from_ranks", x, y, where, [comm = &comm, where](const Tensor& grad) {
    return copy_to_ranks(grad, *comm, where);
  });
  return y;
}

Tensor scatter_to_ranks(const Tensor& x, Communicator& comm, std::int64_t axis, Where where) {
  const int a = normalize_axis("scatter_to_ranks", axis, x.dims(where), where);
  RINGRAD_CHECK(x.shape()[a] % comm.world_size() == 0, ShapeError, where,
                "scatter_to_ranks: the axis must be a multiple of the ranks; got axis ", axis,
                " of ", x.shape(), " and ", comm.world_size(), " ranks");
  if (comm.world_size() == 1) return x;
  const std::int64_t part = x.shape()[a] / comm.world_size(), first = comm.rank() * part;
  const Tensor y = view::slice(x, a, first, first + part, 1, where);
  record_exchange("scatter_to_ranks", x, y, where, [comm = &comm, a, where](const Tensor& grad) {
    return gather_from_ranks(grad, *comm, a, where);
  });
  return y;
}

// all_gather puts the ranks' parts one after another, so the axis is moved to the front.
Tensor gather_from_ranks(const Tensor& x, Communicator& comm, std::int64_t axis, Where where) {
  const int a = normalize_axis("gather_from_ranks", axis, x.dims(where), where);
  if (comm.world_size() == 1) return x;
  const Tensor part = kernels::contiguous(view::transpose(x, 0, a, where), where);
  Shape shape = part.shape();
  shape[0] *= comm.world_size();
  const Tensor parts = empty(shape, {.dtype = x.dtype(), .device = x.device()}, where);
  comm.all_gather(parts, part, where);
  const Tensor y = kernels::contiguous(view::transpose(parts, 0, a, where), where);
  record_exchange("gather_from_ranks", x, y, where, [comm = &comm, a, where](const Tensor& grad) {
    return scatter_to_ranks(grad, *comm, a, where);
  });
  return y;
}

}  // namespace ringrad
