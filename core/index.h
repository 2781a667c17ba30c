// What stands in the brackets of x[...].
//
//     x[2]                            one position of the first axis
//     x[{1, Slice(0, 5)}]             one position of the first, positions 0 to 4 of the second
//     x[{kEllipsis, Slice(), 0}]      the first position of the last axis
//     x[{kNewAxis, Slice(0, 10, 2)}]  a new axis of extent 1, then every other of ten positions
//     x[{Slice(kNone, kNone, -1)}]    all positions of the first axis, from the last one: a copy
//     x[rows], x[{Slice(), columns}]  positions of an axis, listed in an integer tensor: a copy
//     x[x > 0]                        the elements at which a bool tensor is true: a copy

#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor_impl.h"

namespace ringrad {

/// A bound of a Slice that is left out.
inline constexpr std::nullopt_t kNone = std::nullopt;

/// Positions start, start + step, ... before `end`, as in Python: negative ones count from the end,
/// and all are clamped to the axis. A negative step goes backwards, and stops before it reaches
/// `end`. A slice without bounds is the whole axis, in the direction of the step.
struct Slice {
  constexpr Slice() = default;
  constexpr explicit Slice(std::optional<std::int64_t> first,
                           std::optional<std::int64_t> before = kNone, std::int64_t distance = 1)
      : start(first.value_or(distance < 0 ? kLast : 0)),
        end(before.value_or(distance < 0 ? kFirst : kLast)),
        step(distance) {}

  static constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();

  std::int64_t start = 0;
  std::int64_t end = kLast;
  std::int64_t step = 1;
};

/// A new axis of extent 1.
inline constexpr struct NewAxis {
} kNewAxis;

/// Stands for all axes that the other indices leave over. Without it, the last axes are left over.
inline constexpr struct Ellipsis {
} kEllipsis;

class Tensor;

struct Index {
  enum class Kind { position, slice, new_axis, ellipsis, tensor };

  Index(std::int64_t position) : kind(Kind::position), slice(position) {}
  Index(const Slice& positions) : kind(Kind::slice), slice(positions) {}
  Index(NewAxis) : kind(Kind::new_axis) {}
  Index(Ellipsis) : kind(Kind::ellipsis) {}
  Index(const Tensor& positions);  // tensor.h

  Kind kind;
  Slice slice;             ///< a position is its start
  Ref<TensorImpl> tensor;  ///< null unless the kind is tensor
};

/// A bracket cannot take a defaulted Where, so the implicit conversions note the line.
struct LocatedIndex {
  LocatedIndex(std::int64_t position, Where at = Where::current()) : index(position), where(at) {}
  std::int64_t index;
  Where where;
};
struct LocatedIndices {
  LocatedIndices(std::initializer_list<Index> list, Where at = Where::current())
      : indices(list.begin(), list.size()), where(at) {}
  explicit LocatedIndices(std::span<const Index> list, Where at = Where::current())
      : indices(list), where(at) {}
  LocatedIndices(const Tensor& positions, Where at = Where::current());  // tensor.h
  LocatedIndices(const LocatedIndices&) = delete;
  LocatedIndices& operator=(const LocatedIndices&) = delete;

  Index only = kEllipsis;  ///< the index of x[positions], which has no braces
  std::span<const Index> indices;
  Where where;
};

}  // namespace ringrad
