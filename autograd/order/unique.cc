#include "ringrad/autograd/order/unique.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/grad_mode.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/kernels/index/gather.h"
#include "ringrad/kernels/index/index_select.h"
#include "ringrad/kernels/index/nonzero.h"
#include "ringrad/kernels/order/scan.h"
#include "ringrad/kernels/order/sort.h"

namespace ringrad {
namespace {

// Of the sorted elements, those that differ from the one before begin a group.
std::array<Tensor, 3> groups_of(const Tensor& x, Where where) {
  const NoGradGuard guard;
  const std::int64_t n = x.numel(where);
  const Options whole{.dtype = DType::int64, .device = x.device()};
  const auto [sorted, indices] = kernels::sort(reshape(x, {n}, where), 0, false, where);
  if (n == 0) return {sorted, reshape(indices, x.shape(), where), empty({0}, whole, where)};
  const Tensor differs =
      ne(slice(sorted, 0, 1, n, 1, where), slice(sorted, 0, 0, n - 1, 1, where), where);
  const Tensor begins = concatenate(
      {ones({1}, {.dtype = DType::bool_, .device = x.device()}, where), differs}, 0, where);
  const Tensor starts = kernels::nonzero_positions(begins, where);
  const Tensor values = kernels::index_select(sorted, 0, starts, where);
  const Tensor group = sub(kernels::scan(kernels::ScanOp::sum, begins, 0, false, where), 1, where);
  const Tensor inverse = kernels::scatter(empty({n}, whole, where), 0, indices, group, where);
  const Tensor ends = concatenate(
      {slice(starts, 0, 1, values.numel(), 1, where), full({1}, n, whole, where)}, 0, where);
  return {values, reshape(inverse, x.shape(), where), sub(ends, starts, where)};
}

}  // namespace

std::array<Tensor, 3> unique(const Tensor& x, Where where) {
  std::array<Tensor, 3> groups = groups_of(x, where);
  if (needs_grad(x))
    record("unique", where, groups[0], {&x}, [where](BackwardContext&) {
      throw AutogradError(
          "unique: a backward pass must not pass through its values, which have no derivative "
          "here; "
          "got one that does; pass x.detach()",
          where);
    });
  return groups;
}

}  // namespace ringrad
