#include "ringrad/autograd/index/mask.h"

#include <limits>

#include "ringrad/autograd/broadcast.h"
#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/index/gather.h"
#include "ringrad/kernels/index/indices.h"
#include "ringrad/kernels/index/nonzero.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad {
namespace {

void check_mask(const char* operation, const Tensor& x, const Tensor& mask, Where where) {
  check_same_device(operation, x, mask, where);
  RINGRAD_CHECK(mask.dtype() == DType::bool_, DTypeError, where, operation,
                ": the mask must be bool; got ", mask.dtype());
}

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value, Where at) {
  check_mask("masked_fill", x, mask, at);
  RINGRAD_CHECK(broadcasts_to(mask.shape(), x.shape()), ShapeError, at,
                "masked_fill: the mask must broadcast to x's shape; got ", mask.shape(), " and ",
                x.shape());
  return where(mask, full({}, value, {.dtype = x.dtype(), .device = x.device()}, at), x, at);
}

Tensor masked_select(const Tensor& x, const Tensor& mask, Where where) {
  check_mask("masked_select", x, mask, where);
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape(), where);
  const Tensor positions = kernels::nonzero_positions(view::expand(mask, shape, where), where);
  const Tensor all = reshape(expand(x, shape, where), {shape.numel()}, where);
  return index_select(all, 0, positions, where);
}

Tensor nonzero(const Tensor& x, Where where) { return kernels::nonzero(x, where); }

Tensor one_hot(const Tensor& indices, std::int64_t num_classes, Where where) {
  RINGRAD_CHECK(indices.dtype(where) == DType::int64 || indices.dtype() == DType::int32, DTypeError,
                where, "one_hot: indices must be int32 or int64; got ", indices.dtype());
  RINGRAD_CHECK(num_classes >= -1, ValueError, where,
                "one_hot: the number of classes must not be negative, or -1 to count them; got ",
                num_classes);
  if (num_classes == -1) {
    RINGRAD_CHECK(indices.numel() > 0, ShapeError, where,
                  "one_hot: without a number of classes there must be an index; got shape ",
                  indices.shape());
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const auto largest = kernels::max(indices, {}, false, where).item<std::int64_t>(where);
    RINGRAD_CHECK(largest < kMost, IndexError, where, "one_hot: an index must be in [0, ", kMost,
                  "); got ", largest);
    num_classes = largest + 1;
  }
  kernels::check_indices("one_hot", "an index", indices, num_classes, where);
  RINGRAD_CHECK(indices.dims() < kMaxDims, ShapeError, where, "one_hot: at most ", kMaxDims,
                " axes are supported; got ", indices.shape(), " and one more");
  Shape shape = indices.shape();
  shape.push_back(num_classes);
  const Options options{.dtype = DType::int64, .device = indices.device()};
  const Tensor y = zeros(shape, options, where);
  const Tensor column = view::unsqueeze(indices, -1, where);
  const Tensor ones = full(column.shape(), 1, options, where);
  kernels::scatter_(y, -1, column, ones, where);
  return y;
}

}  // namespace ringrad
