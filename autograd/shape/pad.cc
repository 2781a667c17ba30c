#include "ringrad/autograd/shape/pad.h"

#include <algorithm>
#include <vector>

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/transfer.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"

namespace ringrad {
namespace {

struct Amounts {
  std::int64_t before = 0, after = 0;
};

// The amounts of each axis, in the order of the axes.
std::vector<Amounts> per_axis(const Tensor& x, std::span<const std::int64_t> list, Where where) {
  RINGRAD_CHECK(list.size() % 2 == 0, ValueError, where,
                "pad: amounts must be pairs of before and after; got ", list.size(), " numbers");
  const auto dims = static_cast<std::size_t>(x.dims(where));
  RINGRAD_CHECK(list.size() / 2 <= dims, ShapeError, where,
                "pad: there must be at most one pair of amounts per axis; got ", list.size() / 2,
                " pairs for shape ", x.shape());
  std::vector<Amounts> amounts(dims);
  for (std::size_t k = 0; k < list.size() / 2; ++k)
    amounts[dims - 1 - k] = {list[2 * k], list[2 * k + 1]};
  for (std::size_t axis = 0; axis < dims; ++axis) {
    const auto [before, after] = amounts[axis];
    const std::int64_t extent = x.shape()[static_cast<int>(axis)];
    std::int64_t sum;
    const bool fits =
        !__builtin_add_overflow(extent, before, &sum) && !__builtin_add_overflow(sum, after, &sum);
    RINGRAD_CHECK(before >= -extent && after >= -extent && fits && sum >= 0, ShapeError, where,
                  "pad: no more than an axis can be removed from it, and its extent must fit in "
                  "int64; got ",
                  before, " and ", after, " for axis ", axis, " of ", x.shape());
  }
  return amounts;
}

// Fills a tensor with the value, then copies what is kept of x into its place.
Tensor surrounded(const Tensor& x, const std::vector<Amounts>& amounts, Scalar value, Where where) {
  const bool channels_last = x.is_channels_last() && !x.is_contiguous();
  Shape shape = x.shape();
  for (int i = 0; i < x.dims(); ++i) {
    const auto [before, after] = amounts[static_cast<std::size_t>(i)];
    shape[i] += before + after;
  }
  const Tensor y = full(shape, value,
                        {.dtype = x.dtype(),
                         .device = x.device(),
                         .layout = channels_last ? Layout::channels_last : Layout::contiguous},
                        where);
  Tensor kept = x, place = y;
  for (int i = 0; i < x.dims(); ++i) {
    const auto [before, after] = amounts[static_cast<std::size_t>(i)];
    const std::int64_t from = std::max<std::int64_t>(-before, 0);
    const std::int64_t to = std::max<std::int64_t>(before, 0);
    const std::int64_t length =
        x.shape()[i] + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
    kept = view::slice(kept, i, from, from + length, 1, where);
    place = view::slice(place, i, to, to + length, 1, where);
  }
  kernels::copy_(place, kept, where);
  return y;
}

// The positions of an axis of extent n that its padded axis repeats.
Tensor positions(Amounts amounts, std::int64_t n, PadMode mode, const Tensor& x, Where where) {
  const auto [before, after] = amounts;
  const Device host = x.device().is_cpu() ? x.device() : Device();
  const Tensor indices =
      empty({before + n + after}, {.dtype = DType::int64, .device = host}, where);
  auto* to = indices.data<std::int64_t>();
  for (std::int64_t i = -before; i < n + after; ++i) {
    const std::int64_t mirrored = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
    *to++ = mode == PadMode::reflect ? mirrored : std::clamp<std::int64_t>(i, 0, n - 1);
  }
  return to_device(indices, x.device(), where);
}

Tensor extended(Tensor x, const std::vector<Amounts>& amounts, PadMode mode, Where where) {
  bool is_copy = false;
  for (int i = 0; i < x.dims(); ++i) {
    const Amounts added = amounts[static_cast<std::size_t>(i)];
    if (added.before == 0 && added.after == 0) continue;
    const std::int64_t n = x.shape()[i], most = std::max(added.before, added.after);
    if (mode == PadMode::reflect)
      RINGRAD_CHECK(most < n, ShapeError, where,
                    "pad: reflect must add fewer positions than the axis has; got ", added.before,
                    " and ", added.after, " for axis ", i, " of ", x.shape());
    else
      RINGRAD_CHECK(n > 0, ShapeError, where,
                    "pad: an axis must have an element to replicate; got axis ", i, " of ",
                    x.shape());
    x = index_select(x, i, positions(added, n, mode, x, where), where);
    is_copy = true;
  }
  return is_copy ? x : clone(x, where);
}

}  // namespace

Tensor pad(const Tensor& x, std::span<const std::int64_t> amounts, PadMode mode, Scalar value,
           Where where) {
  const std::vector<Amounts> by_axis = per_axis(x, amounts, where);
  if (mode != PadMode::constant) return extended(x, by_axis, mode, where);
  Tensor y = surrounded(x, by_axis, value, where);
  if (needs_grad(x)) {
    std::vector<std::int64_t> removed(amounts.begin(), amounts.end());
    for (std::int64_t& amount : removed) amount = -amount;
    record("pad", where, y, {&x}, [removed = std::move(removed)](BackwardContext& context) {
      context.set(0, pad(context.grad_output(), removed));
    });
  }
  return y;
}

Tensor pad(const Tensor& x, std::initializer_list<std::int64_t> amounts, PadMode mode, Scalar value,
           Where where) {
  return pad(x, std::span(amounts.begin(), amounts.size()), mode, value, where);
}

}  // namespace ringrad
