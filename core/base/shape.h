// Shape: the extents of a tensor, stored inline (no allocation), and the rules for extents and
// strides.
//
// Strides are in elements. Two layouts have names:
//
//     contiguous      last axis varies fastest                (B, C, H, W) -> (CHW, HW, W, 1)
//     channels_last   axis 1 of a 4-d tensor varies fastest   (B, C, H, W) -> (HWC, 1, WC, C)
//
// A tensor is `dense` if its elements fill one block of memory without gaps, in any order of axes.

#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

#include "ringrad/core/base/error.h"

namespace ringrad {

inline constexpr int kMaxDims = 8;

/// Up to kMaxDims integers by value: extents or strides.
class Shape {
 public:
  constexpr Shape() = default;

  /// Throws ShapeError for more than kMaxDims extents.
  Shape(std::initializer_list<std::int64_t> extents, Where where = Where::current())
      : Shape(std::span(extents.begin(), extents.size()), where) {}
  /// One extent or axis: zeros(3) is zeros({3}), and sum(x, 0) is sum(x, {0}).
  template <std::integral T>
  requires(!std::same_as<T, bool>) constexpr Shape(T extent)
      : values_{static_cast<std::int64_t>(extent)}, size_(1) {}
  explicit Shape(std::span<const std::int64_t> extents, Where where = Where::current());

  /// `dims` times the same value.
  static Shape filled(int dims, std::int64_t value);

  constexpr int size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr std::int64_t operator[](int axis) const { return values_[static_cast<unsigned>(axis)]; }
  constexpr std::int64_t& operator[](int axis) { return values_[static_cast<unsigned>(axis)]; }
  constexpr std::int64_t back() const { return values_[size_ - 1u]; }
  /// The extents, from the first axis.
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  std::int64_t* begin() { return values_.data(); }
  std::int64_t* end() { return values_.data() + size_; }

  /// REQUIRES: size() < kMaxDims
  void push_back(std::int64_t value) { values_[size_++] = value; }
  void insert(int axis, std::int64_t value);
  void erase(int axis);

  bool operator==(const Shape& other) const {
    if (size_ != other.size_) return false;
    for (unsigned i = 0; i < size_; ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

  /// Product of the extents; 1 for a scalar. Extents were validated when the tensor was made.
  constexpr std::int64_t numel() const {
    std::int64_t product = 1;
    for (unsigned i = 0; i < size_; ++i) product *= values_[i];
    return product;
  }

 private:
  std::array<std::int64_t, kMaxDims> values_{};
  std::uint8_t size_ = 0;
};

/// Strides share the representation; the name says what the numbers mean.
using Strides = Shape;

/// "(2, 3)", "(5,)", "()": as NumPy prints it.
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// The order of axes in memory: as they are numbered, or (B, H, W, C) for a tensor (B, C, H, W).
enum class Layout : std::uint8_t { contiguous, channels_last };

/// Throws ShapeError for a negative extent, or when the number of bytes does not fit in int64.
void check_extents(const char* operation, const Shape& shape, std::size_t element_bytes,
                   Where where);

/// Strides of a fresh tensor. channels_last REQUIRES: shape.size() == 4
Strides strides_for(const Shape& shape, Layout layout = Layout::contiguous);

/// True if the strides visit memory in row-major order without gaps. Axes of extent 1 do not count,
/// and a tensor without elements is always contiguous.
bool is_contiguous(const Shape& shape, const Strides& strides);

/// True for 4-d strides in the channels_last order.
bool is_channels_last(const Shape& shape, const Strides& strides);

/// True if the elements fill exactly numel() consecutive places, in any order of axes.
bool is_dense(const Shape& shape, const Strides& strides);

/// True if two elements share one place in memory, as after expand(): the stride of some axis is no
/// larger than the reach of all axes of smaller strides.
bool repeats_elements(const Shape& shape, const Strides& strides);

/// Calls visit(i) for every element in row-major order; i is the element's offset in memory from
/// the first one, in elements.
template <class Visit>
void for_each_offset(const Shape& shape, const Strides& strides, Visit visit);

/// The NumPy broadcast of two shapes: aligned at the last axis, with extents that are equal or 1.
/// Throws ShapeError "<operation>: shapes must broadcast; got (2, 3) and (4,)".
Shape broadcast_shapes(const char* operation, const Shape& a, const Shape& b, Where where);

/// True if a tensor of shape `from` may be expanded to `to`.
bool broadcasts_to(const Shape& from, const Shape& to);

/// Maps a possibly negative axis to [0, dims). Throws ShapeError naming the axis and the number of
/// dims.
int normalize_axis(const char* operation, std::int64_t axis, int dims, Where where);

/// One bit per axis of `axes` (all axes if empty). Throws ShapeError for a repeated or absent axis.
unsigned axes_mask(const char* operation, const Shape& axes, int dims, Where where);

/// The shape with its one extent of -1, if any, replaced so that the product is `numel`.
/// Throws ShapeError if the shape cannot hold exactly `numel` elements.
Shape infer_shape(const char* operation, Shape shape, std::int64_t numel, Where where);

// Implementation details follow.

template <class Visit>
void for_each_offset(const Shape& shape, const Strides& strides, Visit visit) {
  if (shape.numel() == 0) return;
  Shape index = Shape::filled(shape.size(), 0);
  std::int64_t offset = 0;
  while (true) {
    visit(offset);
    int axis = shape.size() - 1;  // count up like an odometer: the last axis that is not at its end
    for (; axis >= 0; --axis) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace ringrad
