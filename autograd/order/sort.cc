#include "ringrad/autograd/order/sort.h"

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/index/gather.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/order/searchsorted.h"
#include "ringrad/kernels/order/sort.h"
#include "ringrad/kernels/reduce/argmax.h"

namespace ringrad {
namespace {

using Result = std::pair<Tensor, Tensor>;

// The values are gathered from x, each from another place; scattering the gradient is the adjoint.
Result record_order(const char* name, const Tensor& x, std::int64_t axis, kernels::Sorted sorted,
                    Where where) {
  if (needs_grad(x))
    record(name, where, sorted.values, {&x},
           [=, shape = x.shape(), indices = save(sorted.indices)](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             const Tensor none = zeros(shape, {.dtype = grad.dtype(), .device = grad.device()});
             context.set(0, scatter_add(none, axis, indices.get(), grad, where));
           });
  return {std::move(sorted.values), std::move(sorted.indices)};
}

// f of x as a line of one element; the results have no axes either.
template <class F>
Result of_line(const Tensor& x, Where where, F f) {
  const Result result = f(reshape(x, {1}, where));
  return {reshape(result.first, {}, where), reshape(result.second, {}, where)};
}

Result choose(Tensor (*search)(const Tensor&, std::optional<std::int64_t>, bool, Where),
              const Tensor& x, std::int64_t axis, bool keepdim, Where where) {
  if (x.dims(where) == 0)
    return of_line(x, where,
                   [&](const Tensor& line) { return choose(search, line, axis, true, where); });
  const Tensor indices = search(x, axis, true, where);
  const Tensor values = gather(x, axis, indices, where);
  if (keepdim) return {values, indices};
  return {squeeze(values, {axis}, where), squeeze(indices, {axis}, where)};
}

}  // namespace

Result sort(const Tensor& x, std::int64_t axis, bool descending, Where where) {
  if (x.dims(where) == 0)
    return of_line(x, where,
                   [&](const Tensor& line) { return sort(line, axis, descending, where); });
  return record_order("sort", x, axis, kernels::sort(x, axis, descending, where), where);
}

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending, Where where) {
  return kernels::sort(x, axis, descending, where).indices;
}

Result topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest, Where where) {
  RINGRAD_CHECK(x.dims(where) > 0 || k == 1, ShapeError, where,
                "topk: k must be 1 for a tensor without axes; got ", k);
  if (x.dims() == 0)
    return of_line(x, where,
                   [&](const Tensor& line) { return topk(line, k, axis, largest, where); });
  return record_order("topk", x, axis, kernels::topk(x, k, axis, largest, where), where);
}

Result max_with_indices(const Tensor& x, std::int64_t axis, bool keepdim, Where where) {
  return choose(kernels::argmax, x, axis, keepdim, where);
}

Result min_with_indices(const Tensor& x, std::int64_t axis, bool keepdim, Where where) {
  return choose(kernels::argmin, x, axis, keepdim, where);
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, Where where) {
  return kernels::searchsorted(sorted, values, right, where);
}

}  // namespace ringrad
