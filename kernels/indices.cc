#include "kernels/indices.h"

#include "core/simd.h"
#include "kernels/copy.h"

namespace ringrad::kernels {
namespace {

struct IsValid {
  std::int64_t bound;
  bool some_ignored;
  std::int64_t ignored;

  // As an unsigned number a negative index is larger than every bound: one comparison does it.
  bool operator()(std::int64_t index) const {
    return (static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(bound)) |
           (some_ignored & (index == ignored));
  }
};

// Valid indices are the rule: one pass without branches says whether another one has to be found.
template <class Index>
RINGRAD_CLONES bool all_valid(const Index* indices, std::int64_t n, IsValid is_valid) {
  int all = 1;
  for (std::int64_t i = 0; i < n; ++i) all &= is_valid(indices[i]) ? 1 : 0;
  return all != 0;
}

// Element number i in row-major order, as its indices along the axes.
Shape position(const Shape& shape, std::int64_t i) {
  Shape result = shape;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    result[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return result;
}

}  // namespace

void check_indices(const char* operation, const char* what, const Tensor& indices,
                   std::int64_t bound, Where where, std::optional<std::int64_t> ignored) {
  check_index(operation, indices.dtype(), where);
  const Tensor flat = contiguous(indices, where);
  const IsValid is_valid{bound, ignored.has_value(), ignored.value_or(0)};
  dispatch_index(flat.dtype(), [&]<class Index>() {
    const Index* values = flat.data<Index>();
    if (all_valid(values, flat.numel(), is_valid)) return;
    std::int64_t i = 0;
    while (is_valid(values[i])) ++i;
    const std::string exception = ignored ? concat(" or be ", *ignored) : "";
    throw IndexError(concat(operation, ": ", what, " must be in [0, ", bound, ")", exception,
                            "; got ", values[i], " at position ", position(flat.shape(), i)),
                     where);
  });
}

}  // namespace ringrad::kernels
