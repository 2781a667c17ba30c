#include "ringrad/autograd/index/brackets.h"

#include <algorithm>
#include <vector>

#include "ringrad/autograd/flip.h"
#include "ringrad/autograd/index/index_select.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"
#include "ringrad/kernels/index/indices.h"
#include "ringrad/kernels/index/nonzero.h"

namespace ringrad {
namespace {

constexpr const char* kName = "x[{...}]";

// An axis of the view, and its positions.
struct Indexed {
  int axis;
  Tensor positions;
};

int axes_of(const Index& index, Where where) {
  switch (index.kind) {
    case Index::Kind::position:
    case Index::Kind::slice:
      return 1;
    case Index::Kind::tensor: {
      const Tensor tensor(index.tensor);
      return tensor.dtype(where) == DType::bool_ ? tensor.dims() : 1;
    }
    default:
      return 0;
  }
}

// op(a, b) for a number b.
template <class Op>
Tensor combine(const Tensor& a, Scalar b, Where where) {
  return kernels::unary(ops::RightScalar<Op>(b), a, where);
}

// Appends what the tensor says about the axes of y from `axis` on.
void append(std::vector<Indexed>& list, const Tensor& tensor, const Tensor& y, int axis,
            Where where) {
  check_same_device(kName, y, tensor, where);
  if (tensor.dtype() != DType::bool_) {
    const bool lists = tensor.dtype() == DType::int64 || tensor.dtype() == DType::int32;
    RINGRAD_CHECK(lists, DTypeError, where, kName, ": tensors must be bool, int32 or int64; got ",
                  tensor.dtype());
    list.push_back({axis, detail::from_start(kName, tensor, y.shape()[axis], where)});
    return;
  }
  for (int i = 0; i < tensor.dims(); ++i)
    RINGRAD_CHECK(tensor.shape()[i] == y.shape()[axis + i], ShapeError, where, kName,
                  ": a mask must have the shape of the axes that it indexes; got ", tensor.shape(),
                  " for axis ", axis, " of ", y.shape());
  RINGRAD_CHECK(tensor.dims() > 0, ShapeError, where, kName,
                ": a mask must have an axis; got shape ()");
  const Tensor coordinates = kernels::nonzero(tensor, where);
  for (int i = 0; i < tensor.dims(); ++i)
    list.push_back({axis + i, view::select(coordinates, 1, i, where)});
}

// The positions of a slice in growing order, also those that its step visits from the end.
Tensor ascending(const Tensor& y, int axis, const Slice& positions, Where where) {
  RINGRAD_CHECK(positions.step != 0, ValueError, where, kName, ": a step must not be 0; got 0");
  if (positions.step > 0)
    return slice(y, axis, positions.start, positions.end, positions.step, where);
  const std::int64_t extent = y.shape()[axis];
  const auto clamp = [&](std::int64_t position) {  // -1 is before the first position
    return std::clamp<std::int64_t>(position < 0 ? position + extent : position, -1, extent - 1);
  };
  const std::int64_t start = clamp(positions.start), length = start - clamp(positions.end);
  if (length <= 0) return slice(y, axis, 0, 0, 1, where);
  const std::int64_t step = -std::max(positions.step, -extent);
  return slice(y, axis, start - (length - 1) / step * step, start + 1, step, where);
}

// Brings the indexed axes, which are in growing order, together; returns where they begin.
// Positions without axes stand for one position, as a number does, so only the others decide.
int gather_axes(Tensor& y, const std::vector<Indexed>& list, Where where) {
  const auto has_axes = [](const Indexed& indexed) { return indexed.positions.dims() > 0; };
  const auto from = std::find_if(list.begin(), list.end(), has_axes);
  const auto to = std::find_if(list.rbegin(), list.rend(), has_axes);
  const int first = from == list.end() ? list.front().axis : from->axis;
  const int last = from == list.end() ? first : to->axis;
  Shape order;
  int begin = 0;
  bool are_neighbours = true;
  for (int axis = 0; axis < y.dims(); ++axis) {
    if (std::any_of(list.begin(), list.end(), [&](const Indexed& i) { return i.axis == axis; }))
      continue;
    order.push_back(axis);
    begin += axis < first;
    are_neighbours = are_neighbours && (axis < first || axis > last);
  }
  if (!are_neighbours) begin = 0;
  for (auto indexed = list.rbegin(); indexed != list.rend(); ++indexed)
    order.insert(begin, indexed->axis);
  if (!std::is_sorted(order.begin(), order.end())) y = permute(y, order, where);
  return begin;
}

}  // namespace

namespace detail {

Tensor from_start(const char* operation, const Tensor& positions, std::int64_t extent,
                  Where where) {
  const Tensor given = kernels::cast(positions, DType::int64, where);
  const Tensor from_end = combine<ops::Add>(given, extent, where);
  const Tensor zero = zeros({}, {.dtype = DType::int64, .device = positions.device()}, where);
  const Tensor negative = kernels::binary<ops::Lt>(given, zero, where);
  const Tensor result = kernels::where(negative, from_end, given, where);
  kernels::check_indices(operation, "an index, counted from the start,", result, extent, where);
  return result;
}

Shape Selection::shape() const {
  Shape shape;
  if (count == 0) return view.shape();
  for (int i = 0; i < axis; ++i) shape.push_back(view.shape()[i]);
  for (const std::int64_t extent : positions.shape()) shape.push_back(extent);
  for (int i = axis + count; i < view.dims(); ++i) shape.push_back(view.shape()[i]);
  return shape;
}

Shape Selection::flat() const {
  Shape shape = view.shape();
  for (int i = 1; i < count; ++i) {
    shape[axis] *= shape[axis + 1];
    shape.erase(axis + 1);
  }
  return shape;
}

Selection select_by(const Tensor& x, std::span<const Index> indices, Where where) {
  int axes = 0, ellipses = 0;
  for (const Index& index : indices) {
    axes += axes_of(index, where);
    ellipses += index.kind == Index::Kind::ellipsis;
  }
  RINGRAD_CHECK(axes <= x.dims(where) && ellipses <= 1, ShapeError, where, kName,
                ": there must be at most one index per axis and one kEllipsis; got ", axes, " and ",
                ellipses, " for shape ", x.shape(where));
  Selection result;
  Tensor& y = result.view = x;
  std::vector<Indexed> list;
  int axis = 0;
  for (const Index& index : indices) switch (index.kind) {
      case Index::Kind::position:
        y = select(y, axis, index.slice.start, where);
        break;
      case Index::Kind::slice:
        if (index.slice.step < 0) result.reversed.push_back(axis);
        y = ascending(y, axis++, index.slice, where);
        break;
      case Index::Kind::new_axis:
        y = unsqueeze(y, axis++, where);
        break;
      case Index::Kind::ellipsis:
        axis += x.dims() - axes;
        break;
      case Index::Kind::tensor:
        append(list, Tensor(index.tensor), y, axis, where);
        axis += axes_of(index, where);
    }
  if (list.empty()) return result;
  result.axis = gather_axes(y, list, where);
  result.count = static_cast<int>(list.size());
  // Horner: the position in the axes so far, times the extent of the next one, plus its position.
  Tensor& positions = result.positions = list.front().positions;
  for (int i = 1; i < result.count; ++i) {
    const Tensor& next = list[static_cast<std::size_t>(i)].positions;
    broadcast_shapes(kName, positions.shape(), next.shape(), where);
    const std::int64_t extent = y.shape()[result.axis + i];
    positions = kernels::binary<ops::Add>(combine<ops::Mul>(positions, extent, where), next, where);
  }
  RINGRAD_CHECK(y.dims() - result.count + positions.dims() <= kMaxDims, ShapeError, where, kName,
                ": at most ", kMaxDims, " axes are supported; got ", positions.shape(), " for ",
                result.count, " axes of ", y.shape());
  // Where gather_axes() and the shape of the tensors have moved the other axes to.
  for (std::int64_t& reversed : result.reversed) {
    reversed -= std::count_if(list.begin(), list.end(),
                              [&](const Indexed& indexed) { return indexed.axis < reversed; });
    if (reversed >= result.axis) reversed += positions.dims();
  }
  return result;
}

}  // namespace detail

Tensor Tensor::operator[](LocatedIndex index) const {
  return select(*this, 0, index.index, index.where);
}

Tensor Tensor::operator[](LocatedIndices located) const {
  const Where where = located.where;
  const detail::Selection selection = detail::select_by(*this, located.indices, where);
  Tensor y = selection.view;
  if (selection.count > 0) {
    const Tensor flat = ringrad::reshape(y, selection.flat(), where);
    const Tensor list = view::reshape(kernels::contiguous(selection.positions, where),
                                      {selection.positions.numel()}, where);
    y = ringrad::reshape(index_select(flat, selection.axis, list, where), selection.shape(), where);
  }
  return selection.reversed.empty() ? y : flip(y, selection.reversed, where);
}

}  // namespace ringrad
