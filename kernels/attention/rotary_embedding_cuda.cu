#include <cmath>

#include "ringrad/kernels/attention/rotary_embedding.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

/// Where the rows of x and y lie.
struct Rows {
  Shape shape;  // without the last axis
  Strides x, y;
  std::int64_t x_element, y_element, columns;
};

// A thread computes a pair, or copies two of the elements that do not turn: element i of the first
// half and its partner. Bound: bandwidth; float64 for the angles.
template <class T>
__global__ void rotary_thread_per_pair(const T* x, T* y, std::int64_t threads, Rows rows,
                                       RotaryOptions options, double sign) {
  using Math = MathType<T>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= threads) return;
  const std::int64_t halves = (rows.columns + 1) / 2;
  std::int64_t i = thread % halves, row = thread / halves;
  const std::int64_t t = row % rows.shape[rows.shape.size() - 1];
  for (int axis = rows.shape.size() - 1; axis >= 0; --axis) {
    const std::int64_t at = row % rows.shape[axis];
    row /= rows.shape[axis];
    x += at * rows.x[axis];
    y += at * rows.y[axis];
  }
  const std::int64_t pairs = options.size / 2;
  if (i >= pairs) {
    i = options.size + 2 * (i - pairs);
    for (std::int64_t j = i; j < i + 2 && j < rows.columns; ++j)
      y[j * rows.y_element] = x[j * rows.x_element];
    return;
  }
  const double frequency =
      std::pow(options.base, -2 * static_cast<double>(i) / static_cast<double>(options.size));
  const double angle = static_cast<double>(options.offset + t) * frequency;
  const auto cosine = static_cast<Math>(std::cos(angle));
  const auto sine = static_cast<Math>(sign * std::sin(angle));
  const std::int64_t first = options.interleaved ? 2 * i : i;
  const std::int64_t second = options.interleaved ? first + 1 : i + pairs;
  const auto a = static_cast<Math>(x[first * rows.x_element]);
  const auto b = static_cast<Math>(x[second * rows.x_element]);
  y[first * rows.y_element] = T(a * cosine - b * sine);
  y[second * rows.y_element] = T(b * cosine + a * sine);
}

}  // namespace

void rotary_embedding(const RotaryCall& call, Where where) {
  const Tensor &x = call.x, &y = call.y;
  Rows rows{{}, {}, {}, x.strides().back(), y.strides().back(), x.shape().back()};
  for (int axis = 0; axis < x.dims() - 1; ++axis) {
    rows.shape.push_back(x.shape()[axis]);
    rows.x.push_back(x.strides()[axis]);
    rows.y.push_back(y.strides()[axis]);
  }
  const std::int64_t threads = x.numel() / rows.columns * ((rows.columns + 1) / 2);
  dispatch_floating(x.dtype(), [&]<class T>() {
    launch_on(x.device(),
              thread_per_element("rotary_embedding", threads,
                                 2. * static_cast<double>(x.numel()) * sizeof(T)),
              where, rotary_thread_per_pair<T>, x.device_data<const T>(), y.device_data<T>(),
              threads, rows, call.options, call.sign);
  });
}

}  // namespace ringrad::kernels::cuda
