#include "ringrad/autograd/order/quantile.h"

#include "ringrad/autograd/elementwise.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/order/sort.h"

namespace ringrad {
namespace {

// Sorted lines along one axis, of which results are taken.
class SortedLines {
 public:
  SortedLines(const char* operation, const Tensor& x, std::optional<std::int64_t> axis,
              bool keepdim, Where where)
      : where_(where), keepdim_(keepdim) {
    const int dims = x.dims(where);
    if (axis) axis_ = normalize_axis(operation, *axis, dims, where);
    const Tensor lines = axis ? x : reshape(x, {x.numel()}, where);
    length_ = lines.size(axis_);
    RINGRAD_CHECK(length_ > 0, ShapeError, where, operation,
                  ": there must be an element; got shape ", x.shape());
    sorted_ = sort(lines, axis_, false, where).first;
    if (!axis) all_ones_ = Shape::filled(keepdim ? dims : 0, 1);
  }

  std::int64_t length() const { return length_; }

  /// The elements at a position of each line.
  Tensor at(std::int64_t position) const { return select(sorted_, axis_, position, where_); }

  /// y in the shape that the caller requested, and NaN where a line has one, which is its last
  /// element.
  Tensor finished(Tensor y) const {
    if (is_floating(y.dtype())) {
      const Tensor last = at(length_ - 1);
      y = where(isnan(last), last, y);
    }
    if (all_ones_) return reshape(y, *all_ones_, where_);
    return keepdim_ ? unsqueeze(y, axis_, where_) : y;
  }

 private:
  Where where_;
  bool keepdim_;
  int axis_ = 0;
  std::int64_t length_;
  Tensor sorted_;
  std::optional<Shape> all_ones_;  // the result's shape, if lines are all elements
};

}  // namespace

Tensor median(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim, Where where) {
  const SortedLines lines("median", x, axis, keepdim, where);
  return lines.finished(lines.at((lines.length() - 1) / 2));
}

Tensor quantile(const Tensor& x, double q, std::optional<std::int64_t> axis, bool keepdim,
                Where where) {
  check_floating("quantile", x, where);
  RINGRAD_CHECK(q >= 0 && q <= 1, ValueError, where, "quantile: q must be in [0, 1]; got ", q);
  const SortedLines lines("quantile", x, axis, keepdim, where);
  const double position = q * static_cast<double>(lines.length() - 1);
  const auto low = static_cast<std::int64_t>(position);
  const double weight = position - static_cast<double>(low);
  if (weight == 0) return lines.finished(lines.at(low));
  const Tensor below = lines.at(low), above = lines.at(low + 1), distance = above - below;
  // The distance may exceed the largest number. It is the more accurate way where it does not.
  return lines.finished(ringrad::where(isfinite(distance), below + distance * weight,
                                       below * (1 - weight) + above * weight));
}

}  // namespace ringrad
