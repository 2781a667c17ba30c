#include "ringrad/autograd/shape/repeat.h"

#include <algorithm>

#include "ringrad/autograd/broadcast.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/transfer.h"

namespace ringrad {
namespace {

// x as (outer, length) in row-major order, with each row `count` times in a row. A copy, even where
// strides of 0 could express the result: callers may write to it.
Tensor repeat_rows(const Tensor& x, std::int64_t outer, std::int64_t count, std::int64_t length,
                   const Shape& result, Where where) {
  const Tensor rows = reshape(x, {outer, 1, length}, where);
  return reshape(contiguous(expand(rows, {outer, count, length}, where), where), result, where);
}

std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t result = 1;
  for (int i = begin; i < end; ++i) result *= shape[i];
  return result;
}

void check_count(const char* operation, std::int64_t count, Where where) {
  RINGRAD_CHECK(count >= 0, ValueError, where, operation, ": a count must not be negative; got ",
                count);
}

std::int64_t repeated(const char* operation, std::int64_t extent, std::int64_t count, Where where) {
  check_count(operation, count, where);
  std::int64_t result;
  RINGRAD_CHECK(!__builtin_mul_overflow(extent, count, &result), ShapeError, where, operation,
                ": the extents of the result must fit in int64; got ", extent, " times ", count);
  return result;
}

}  // namespace

// Goes from the last axis to the first, so that the last pass, which writes most, moves the longest
// rows.
Tensor repeat(const Tensor& x, const Shape& counts, Where where) {
  RINGRAD_CHECK(counts.size() >= x.dims(where), ShapeError, where,
                "repeat: there must be a count for each axis; got ", counts, " for shape ",
                x.shape());
  Shape shape = Shape::filled(counts.size(), 1);
  for (int i = 0; i < x.dims(); ++i) shape[counts.size() - x.dims() + i] = x.shape()[i];
  Tensor y = reshape(x, shape, where);
  for (int axis = counts.size() - 1; axis >= 0; --axis) {
    if (counts[axis] == 1) continue;
    const std::int64_t outer = product(shape, 0, axis);
    const std::int64_t length = product(shape, axis, shape.size());
    shape[axis] = repeated("repeat", shape[axis], counts[axis], where);
    y = repeat_rows(y, outer, counts[axis], length, shape, where);
  }
  return y.storage() == x.storage() ? clone(y, where) : y;
}

Tensor tile(const Tensor& x, const Shape& counts, Where where) {
  Shape all = counts;
  while (all.size() < x.dims(where)) all.insert(0, 1);
  return repeat(x, all, where);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::optional<std::int64_t> axis,
                         Where where) {
  if (!axis) return repeat_interleave(reshape(x, {x.numel(where)}, where), repeats, 0, where);
  const int a = normalize_axis("repeat_interleave", *axis, x.dims(where), where);
  Shape shape = x.shape();
  const std::int64_t outer = product(shape, 0, a + 1);
  const std::int64_t length = product(shape, a + 1, shape.size());
  shape[a] = repeated("repeat_interleave", shape[a], repeats, where);
  const Tensor y = repeat_rows(x, outer, repeats, length, shape, where);
  return y.storage() == x.storage() ? clone(y, where) : y;
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<std::int64_t> axis,
                         Where where) {
  if (!axis) return repeat_interleave(reshape(x, {x.numel(where)}, where), repeats, 0, where);
  const std::int64_t n = x.size(*axis, where);
  RINGRAD_CHECK(repeats.dtype(where) == DType::int64 || repeats.dtype() == DType::int32, DTypeError,
                where, "repeat_interleave: counts must be int32 or int64; got ", repeats.dtype());
  RINGRAD_CHECK(repeats.shape() == Shape{n}, ShapeError, where,
                "repeat_interleave: there must be a count for each of ", n,
                " positions; got counts ", repeats.shape());
  const std::vector<std::int64_t> counts = repeats.to_vector<std::int64_t>(where);
  std::int64_t total = 0;
  for (const std::int64_t count : counts) {
    check_count("repeat_interleave", count, where);
    RINGRAD_CHECK(!__builtin_add_overflow(total, count, &total), ShapeError, where,
                  "repeat_interleave: the sum of the counts must fit in int64; got a count of ",
                  count);
  }
  const Device host = x.device().is_cpu() ? x.device() : Device();
  const Tensor positions = empty({total}, {.dtype = DType::int64, .device = host}, where);
  auto* next = positions.data<std::int64_t>();
  for (std::size_t i = 0; i < counts.size(); ++i)
    next = std::fill_n(next, counts[i], static_cast<std::int64_t>(i));
  return index_select(x, *axis, to_device(positions, x.device(), where), where);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> lists, Indexing indexing, Where where) {
  RINGRAD_CHECK(!lists.empty(), ValueError, where,
                "meshgrid: there must be a list of coordinates; got none");
  const bool swapped = indexing == Indexing::xy && lists.size() >= 2;
  const auto axis_of = [&](int k) { return swapped && k < 2 ? 1 - k : k; };
  const int dims = static_cast<int>(lists.size());
  RINGRAD_CHECK(dims <= kMaxDims, ShapeError, where, "meshgrid: at most ", kMaxDims,
                " axes are supported; got ", dims);
  Shape shape = Shape::filled(dims, 1);
  for (int k = 0; k < dims; ++k) {
    const Tensor& list = lists[static_cast<std::size_t>(k)];
    RINGRAD_CHECK(list.dims(where) <= 1, ShapeError, where,
                  "meshgrid: a list of coordinates must have one axis; got ", list.shape());
    shape[axis_of(k)] = list.numel();
  }
  std::vector<Tensor> grids;
  for (int k = 0; k < dims; ++k) {
    Shape along = Shape::filled(dims, 1);
    along[axis_of(k)] = shape[axis_of(k)];
    const Tensor column = reshape(lists[static_cast<std::size_t>(k)], along, where);
    grids.push_back(expand(column, shape, where));
  }
  return grids;
}

std::vector<Tensor> meshgrid(std::initializer_list<Tensor> lists, Indexing indexing, Where where) {
  return meshgrid(std::span(lists.begin(), lists.size()), indexing, where);
}

}  // namespace ringrad
