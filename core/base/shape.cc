#include "ringrad/core/base/shape.h"

#include <algorithm>
#include <ostream>

namespace ringrad {

Shape::Shape(std::span<const std::int64_t> extents, Where where) {
  RINGRAD_CHECK(extents.size() <= kMaxDims, ShapeError, where, "shape: at most ", kMaxDims,
                " axes are supported; got ", extents.size());
  std::copy(extents.begin(), extents.end(), values_.begin());
  size_ = static_cast<std::uint8_t>(extents.size());
}

Shape Shape::filled(int dims, std::int64_t value) {
  RINGRAD_ASSERT(dims >= 0 && dims <= kMaxDims);
  Shape shape;
  shape.size_ = static_cast<std::uint8_t>(dims);
  std::fill(shape.begin(), shape.end(), value);
  return shape;
}

void Shape::insert(int axis, std::int64_t value) {
  RINGRAD_ASSERT(size_ < kMaxDims && axis >= 0 && axis <= size_);
  std::copy_backward(begin() + axis, end(), end() + 1);
  values_[static_cast<unsigned>(axis)] = value;
  ++size_;
}

void Shape::erase(int axis) {
  RINGRAD_ASSERT(axis >= 0 && axis < size_);
  std::copy(begin() + axis + 1, end(), begin() + axis);
  --size_;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  return out << (shape.size() == 1 ? ",)" : ")");
}

void check_extents(const char* operation, const Shape& shape, std::size_t element_bytes,
                   Where where) {
  std::int64_t bytes = static_cast<std::int64_t>(element_bytes);
  bool fits = true;
  for (const std::int64_t extent : shape) {
    RINGRAD_CHECK(extent >= 0, ShapeError, where, operation, ": extents must not be negative; got ",
                  shape);
    // An extent of 0 counts as 1, so that strides cannot overflow either.
    fits = fits && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes);
  }
  RINGRAD_CHECK(fits, ShapeError, where, operation,
                ": the number of bytes must fit in 63 bits; got ", shape, " of ", element_bytes,
                "-byte elements");
}

Strides strides_for(const Shape& shape, Layout layout) {
  Strides strides = Shape::filled(shape.size(), 1);
  if (layout == Layout::channels_last) {
    RINGRAD_ASSERT(shape.size() == 4);
    strides[1] = 1;
    strides[3] = std::max<std::int64_t>(shape[1], 1);
    strides[2] = strides[3] * std::max<std::int64_t>(shape[3], 1);
    strides[0] = strides[2] * std::max<std::int64_t>(shape[2], 1);
    return strides;
  }
  std::int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) return shape.numel() == 0;
    step *= shape[i];
  }
  return true;
}

bool is_channels_last(const Shape& shape, const Strides& strides) {
  if (shape.size() != 4) return false;
  constexpr int kFastestFirst[4] = {1, 3, 2, 0};
  std::int64_t step = 1;
  for (const int axis : kFastestFirst) {
    if (shape[axis] != 1 && strides[axis] != step) return shape.numel() == 0;
    step *= shape[axis];
  }
  return true;
}

namespace {

// The axes longer than 1, shortest stride first.
struct AxesByStride {
  AxesByStride(const Shape& shape, const Strides& strides) {
    for (int i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) continue;
      int at = count++;
      for (; at > 0 && strides[order[static_cast<unsigned>(at - 1)]] > strides[i]; --at)
        order[static_cast<unsigned>(at)] = order[static_cast<unsigned>(at - 1)];
      order[static_cast<unsigned>(at)] = i;
    }
  }
  const int* begin() const { return order.data(); }
  const int* end() const { return order.data() + count; }

  std::array<int, kMaxDims> order{};
  int count = 0;
};

}  // namespace

bool is_dense(const Shape& shape, const Strides& strides) {
  if (shape.numel() == 0) return true;
  std::int64_t step = 1;  // the product of the extents of all axes with smaller strides
  for (const int axis : AxesByStride(shape, strides)) {
    if (strides[axis] != step) return false;
    step *= shape[axis];
  }
  return true;
}

bool repeats_elements(const Shape& shape, const Strides& strides) {
  if (shape.numel() == 0) return false;
  std::int64_t reach = 0;
  for (const int axis : AxesByStride(shape, strides)) {
    if (strides[axis] <= reach) return true;
    reach += strides[axis] * (shape[axis] - 1);
  }
  return false;
}

Shape broadcast_shapes(const char* operation, const Shape& a, const Shape& b, Where where) {
  if (a == b) return a;
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const int offset = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    const std::int64_t x = longer[i + offset];
    const std::int64_t y = shorter[i];
    RINGRAD_CHECK(x == y || x == 1 || y == 1, ShapeError, where, operation,
                  ": shapes must broadcast; got ", a, " and ", b);
    result[i + offset] = x == 1 ? y : x;
  }
  return result;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int offset = to.size() - from.size();
  if (offset < 0) return false;
  for (int i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != to[i + offset]) return false;
  return true;
}

int normalize_axis(const char* operation, std::int64_t axis, int dims, Where where) {
  RINGRAD_CHECK(axis >= -dims && axis < dims, ShapeError, where, operation, ": axis must be in [",
                -dims, ", ", dims, "); got ", axis);
  return static_cast<int>(axis < 0 ? axis + dims : axis);
}

unsigned axes_mask(const char* operation, const Shape& axes, int dims, Where where) {
  if (axes.empty()) return (1u << dims) - 1u;
  unsigned mask = 0;
  for (const std::int64_t axis : axes) {
    const unsigned bit = 1u << normalize_axis(operation, axis, dims, where);
    RINGRAD_CHECK((mask & bit) == 0, ShapeError, where, operation, ": axes must be distinct; got ",
                  axes);
    mask |= bit;
  }
  return mask;
}

Shape infer_shape(const char* operation, Shape shape, std::int64_t numel, Where where) {
  int unknown = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      RINGRAD_CHECK(unknown < 0, ShapeError, where, operation,
                    ": at most one extent may be -1; got ", shape);
      unknown = i;
      continue;
    }
    RINGRAD_CHECK(shape[i] >= 0 && !__builtin_mul_overflow(known, shape[i], &known), ShapeError,
                  where, operation, ": extents must be counts, or -1 for one; got ", shape);
  }
  const Shape asked = shape;
  if (unknown >= 0 && known > 0) {
    shape[unknown] = numel / known;
    known *= shape[unknown];
  }
  RINGRAD_CHECK(known == numel && (unknown < 0 || asked.numel() != 0), ShapeError, where, operation,
                ": the new shape must hold ", numel, " elements; got ", asked);
  return shape;
}

}  // namespace ringrad
