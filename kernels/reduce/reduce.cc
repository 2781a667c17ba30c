#include "ringrad/kernels/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <numeric>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/reduce/reduce_plan.h"

namespace ringrad::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The common part of all reductions: a readable x, the result, and the plan from one to the other.
struct Reduction {
  Reduction(const char* operation, const Tensor& input, const Shape& axes, DType dtype,
            Where where);

  Tensor x;
  Tensor result;  // with the reduced axes kept as ones
  ReducePlan plan;
  std::int64_t count = 1;  // elements per result
  unsigned reduced;        // one bit per axis

  // Writes the sum over x divided by `divisor`, or `empty` if x has no elements.
  void run_sum(double divisor, double empty, Where where) const;

  // The sums of distances from `center`, or of their squares; all float64.
  Tensor sum_deviations(const Tensor& center, bool squared, Where where) const;

  // One element of each group, in the shape of `result`.
  Tensor first_elements(Where where) const;

  // The result in the shape that the caller requested.
  Tensor shaped(bool keepdim, Where where) const;
};

// Strides of a dense tensor of `shape` whose axes have the memory order of `like`.
Strides strides_in_order(const Shape& shape, const Strides& like) {
  std::array<int, kMaxDims> order{};
  const auto end = std::next(order.begin(), shape.size());
  std::iota(order.begin(), end, 0);
  std::stable_sort(order.begin(), end, [&](int a, int b) { return like[a] > like[b]; });
  Strides strides = Shape::filled(shape.size(), 1);
  std::int64_t step = 1;
  for (int k = shape.size() - 1; k >= 0; --k) {
    const int axis = order[static_cast<unsigned>(k)];
    strides[axis] = step;
    step *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

// x itself if some axis has stride 1 and no axis is expanded (stride 0), else a copy.
Tensor with_unit_stride(const Tensor& x, Where where) {
  if (x.is_contiguous()) return x;
  std::int64_t smallest = 1;
  for (int i = 0; i < x.dims(); ++i)
    if (x.shape()[i] != 1) smallest = std::min(smallest, x.strides()[i]);
  bool unit = false;
  for (int i = 0; i < x.dims(); ++i) unit |= x.shape()[i] != 1 && x.strides()[i] == 1;
  return unit && smallest == 1 ? x : clone(x, where);
}

Reduction::Reduction(const char* operation, const Tensor& input, const Shape& axes, DType dtype,
                     Where where)
    : x(with_unit_stride(input, where)), reduced(axes_mask(operation, axes, input.dims(), where)) {
  Shape kept = x.shape();
  for (int i = 0; i < x.dims(); ++i) {
    if (!(reduced >> i & 1u)) continue;
    count *= kept[i];
    kept[i] = 1;
  }
  result = empty(kept, {.dtype = dtype, .device = x.device()}, where);
  if (!x.is_contiguous())
    result = view::as_strided(result, kept, strides_in_order(kept, x.strides()), 0, where);
  Strides strides = result.strides();
  for (int i = 0; i < x.dims(); ++i)
    if (reduced >> i & 1u) strides[i] = 0;
  if (x.numel() > 0) plan = make_reduce_plan(x, strides);
}

void Reduction::run_sum(double divisor, double empty, Where where) const {
  if (x.numel() == 0)
    fill_(result, empty, where);
  else
    (x.device().is_cuda() ? cuda::sum : cpu::sum)(plan, x, divisor, result, where);
}

Tensor Reduction::sum_deviations(const Tensor& center, bool squared, Where where) const {
  const Tensor sum = empty_like(center, where);
  (x.device().is_cuda() ? cuda::sum_deviations : cpu::sum_deviations)(plan, x, center, squared, sum,
                                                                      where);
  return sum;
}

Tensor Reduction::first_elements(Where where) const {
  Tensor elements = x;
  for (int i = 0; i < x.dims(); ++i)
    if (reduced >> i & 1u) elements = view::slice(elements, i, 0, 1, 1, where);
  return elements;
}

Tensor Reduction::shaped(bool keepdim, Where where) const {
  if (keepdim || reduced == 0) return result;
  Shape shape;
  Strides strides;
  for (int i = 0; i < result.dims(); ++i) {
    if (reduced >> i & 1u) continue;
    shape.push_back(result.shape()[i]);
    strides.push_back(result.strides()[i]);
  }
  return view::as_strided(result, shape, strides, 0, where);
}

// The float64 variances, in two passes over x. The first sums distances from the group's first
// element, which are small even if the elements are large. So the mean is known more exactly than
// x's dtype can represent.
Tensor variances(const Reduction& reduction, std::int64_t correction, Where where) {
  using namespace ops;
  const Tensor first = empty_like(reduction.result, DType::float64, where);
  copy_(first, reduction.first_elements(where), where);
  const Tensor distance = unary(RightScalar<Div>(static_cast<double>(reduction.count)),
                                reduction.sum_deviations(first, false, where), where);
  const Tensor squares = reduction.sum_deviations(binary<Add>(first, distance, where), true, where);
  const double divisor =
      static_cast<double>(std::max<std::int64_t>(0, reduction.count - correction));
  return unary(RightScalar<Div>(divisor), squares, where);
}

// What float64 elements are divided by, so that their squares neither overflow nor vanish: 1,
// unless a group's largest element is extreme.
Tensor scale_of(const Tensor& x, const Shape& axes, Where where) {
  using namespace ops;
  const auto clamp = [&](const Tensor& a, double low, double high) {
    return unary(RightScalar<Minimum>(high), unary(RightScalar<Maximum>(low), a, where), where);
  };
  const Tensor largest = max(unary(Abs(), x, where), axes, true, where);
  const Tensor scale = binary<Div>(largest, clamp(largest, 0x1p-400, 0x1p400), where);
  return clamp(scale, 0x1p-674, 0x1p624);  // elements of 0 and infinity stay what they are
}

// The root of squares(reduction), which is float64; `empty` if x has no elements.
template <class Squares>
Tensor root(const char* operation, const Tensor& x, const Shape& axes, bool keepdim, double empty,
            Where where, Squares squares) {
  check_floating(operation, x, where);
  axes_mask(operation, axes, x.dims(), where);  // so that an error names the operation
  if (size_bytes(x.dtype()) == 2)
    return cast(
        root(operation, cast(x, DType::float32, where), axes, keepdim, empty, where, squares),
        x.dtype(), where);
  const bool is_scaled = x.dtype() == DType::float64 && x.numel() > 0;
  const Tensor scale = is_scaled ? scale_of(x, axes, where) : Tensor();
  const Reduction reduction(operation, is_scaled ? binary<ops::Div>(x, scale, where) : x, axes,
                            x.dtype(), where);
  if (x.numel() == 0) {
    fill_(reduction.result, empty, where);
  } else {
    const Tensor y = unary(ops::Sqrt(), squares(reduction), where);
    copy_(reduction.result, is_scaled ? binary<ops::Mul>(y, scale, where) : y, where);
  }
  return reduction.shaped(keepdim, where);
}

void check_correction(const char* operation, std::int64_t correction, Where where) {
  RINGRAD_CHECK(correction >= 0, ValueError, where, operation,
                ": correction must not be negative; got ", correction);
}

template <bool kLargest>
Tensor choose(const char* operation, const Tensor& x, const Shape& axes, bool keepdim,
              Where where) {
  const Reduction reduction(operation, x, axes, x.dtype(where), where);
  RINGRAD_CHECK(reduction.count > 0 || reduction.result.numel() == 0, ShapeError, where, operation,
                ": there must be an element to choose; got shape ", x.shape(), " and axes ", axes);
  if (x.numel() > 0)
    (x.device().is_cuda()
         ? cuda::extreme<kLargest>
         : cpu::extreme<kLargest>)(reduction.plan, reduction.x, reduction.result, where);
  return reduction.shaped(keepdim, where);
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  const DType dtype = is_floating(x.dtype(where)) ? x.dtype() : DType::int64;
  const Reduction reduction("sum", x, axes, dtype, where);
  reduction.run_sum(1, 0, where);
  return reduction.shaped(keepdim, where);
}

Tensor mean(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  check_floating("mean", x, where);
  const Reduction reduction("mean", x, axes, x.dtype(), where);
  reduction.run_sum(static_cast<double>(reduction.count), kNan, where);
  return reduction.shaped(keepdim, where);
}

Tensor var(const Tensor& x, const Shape& axes, std::int64_t correction, bool keepdim, Where where) {
  check_floating("var", x, where);
  check_correction("var", correction, where);
  if (size_bytes(x.dtype()) == 2)  // a mean rounded to 16 bits is too inexact as a center
    return cast(var(cast(x, DType::float32, where), axes, correction, keepdim, where), x.dtype(),
                where);
  const Reduction reduction("var", x, axes, x.dtype(), where);
  if (x.numel() == 0)
    fill_(reduction.result, kNan, where);
  else
    copy_(reduction.result, variances(reduction, correction, where), where);
  return reduction.shaped(keepdim, where);
}

Tensor stddev(const Tensor& x, const Shape& axes, std::int64_t correction, bool keepdim,
              Where where) {
  check_correction("stddev", correction, where);
  return root("stddev", x, axes, keepdim, kNan, where,
              [&](const Reduction& reduction) { return variances(reduction, correction, where); });
}

Tensor prod(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  const DType given = x.dtype(where);
  const DType dtype = !is_floating(given)      ? DType::int64
                      : size_bytes(given) == 2 ? DType::float32
                                               : given;
  const Reduction reduction("prod", cast(x, dtype, where), axes, dtype, where);
  if (x.numel() == 0)
    fill_(reduction.result, 1, where);
  else
    (x.device().is_cuda() ? cuda::product : cpu::product)(reduction.plan, reduction.x,
                                                          reduction.result, where);
  const Tensor y = reduction.shaped(keepdim, where);
  return is_floating(given) ? cast(y, given, where) : y;
}

Tensor norm(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  return root("norm", x, axes, keepdim, 0, where, [&](const Reduction& reduction) {
    const Tensor origin = empty_like(reduction.result, DType::float64, where);
    fill_(origin, 0, where);
    return reduction.sum_deviations(origin, true, where);
  });
}

Tensor max(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  return choose<true>("max", x, axes, keepdim, where);
}

Tensor min(const Tensor& x, const Shape& axes, bool keepdim, Where where) {
  return choose<false>("min", x, axes, keepdim, where);
}

Tensor sum_to(const Tensor& x, const Shape& shape, Where where) {
  if (x.shape() == shape) return x;
  RINGRAD_CHECK(broadcasts_to(shape, x.shape()), ShapeError, where,
                "sum_to: the shape must broadcast to the tensor's; got ", shape, " and ",
                x.shape());
  const int leading = x.dims() - shape.size();
  Shape axes;
  for (int i = 0; i < x.dims(); ++i)
    if (i < leading || (shape[i - leading] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  return view::reshape(sum(x, axes, true, where), shape, where);
}

}  // namespace ringrad::kernels
