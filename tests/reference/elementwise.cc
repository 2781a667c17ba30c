#include "ringrad/tests/reference/elementwise.h"

namespace ringrad::reference {
namespace {

// The row-major position of element `index` of the broadcast shape in a tensor of shape `x`.
std::size_t position(const Shape& index, const Shape& x) {
  const int missing = index.size() - x.size();
  std::int64_t at = 0;
  for (int axis = 0; axis < x.size(); ++axis)
    at = at * x[axis] + (x[axis] == 1 ? 0 : index[missing + axis]);
  return static_cast<std::size_t>(at);
}

// Row-major coordinates of element number `i`.
Shape coordinates(std::int64_t i, const Shape& shape) {
  Shape index = shape;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    index[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return index;
}

}  // namespace

Tensor elementwise(const Formula& f, const std::vector<Tensor>& operands) {
  Shape shape;
  std::vector<std::vector<double>> values;
  for (const Tensor& x : operands) {
    shape = broadcast_shapes("reference", shape, x.shape(), Where::current());
    values.push_back(x.to_vector<double>());
  }
  Tensor y = empty(shape, {.dtype = DType::float64, .device = Device()});
  std::vector<double> arguments(operands.size());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const Shape index = coordinates(i, shape);
    for (std::size_t k = 0; k < operands.size(); ++k)
      arguments[k] = values[k][position(index, operands[k].shape())];
    y.data<double>()[i] = f(arguments);
  }
  return y;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  Tensor sum = zeros(shape, {.dtype = DType::float64, .device = Device()});
  const std::vector<double> values = x.to_vector<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i)
    sum.data<double>()[position(coordinates(i, x.shape()), shape)] +=
        values[static_cast<std::size_t>(i)];
  return sum;
}

}  // namespace ringrad::reference
