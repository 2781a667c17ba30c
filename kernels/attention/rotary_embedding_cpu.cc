#include <cmath>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/attention/rotary_embedding.h"
#include "ringrad/kernels/elementwise/math.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// The cosines and sines of all pairs at one position.
template <class M>
struct Turns {
  std::vector<double> frequencies;
  std::vector<M> cosines, sines;

  explicit Turns(const RotaryOptions& options)
      : cosines(static_cast<std::size_t>(options.size / 2)), sines(cosines.size()) {
    for (std::size_t i = 0; i < cosines.size(); ++i)
      frequencies.push_back(
          std::pow(options.base, -2 * static_cast<double>(i) / static_cast<double>(options.size)));
  }
};

template <class M>
RINGRAD_CLONES void compute(double position, double sign, Turns<M>& turns) {
  const auto pairs = static_cast<std::int64_t>(turns.cosines.size());
  const double* frequency = turns.frequencies.data();
  M *cosine = turns.cosines.data(), *sine = turns.sines.data();
  for (std::int64_t i = 0; i < pairs; ++i)
    cosine[i] = static_cast<M>(std::cos(position * frequency[i]));
  for (std::int64_t i = 0; i < pairs; ++i)
    sine[i] = static_cast<M>(sign * std::sin(position * frequency[i]));
}

/// Steps within a row: between the first elements of two pairs, from the first element of a pair to
/// its second one, and between elements.
struct Steps {
  std::int64_t pair, second, element;
};

template <class T>
RINGRAD_CLONES void rotate_row(std::int64_t columns, const Turns<MathType<T>>& turns, const T* x,
                               Steps from, T* y, Steps to) {
  using M = MathType<T>;
  const auto pairs = static_cast<std::int64_t>(turns.cosines.size());
  const M *cosine = turns.cosines.data(), *sine = turns.sines.data();
  const auto loop = [&](std::int64_t x_step, std::int64_t y_step) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const auto a = static_cast<M>(x[i * x_step]);
      const auto b = static_cast<M>(x[i * x_step + from.second]);
      y[i * y_step] = static_cast<T>(a * cosine[i] - b * sine[i]);
      y[i * y_step + to.second] = static_cast<T>(b * cosine[i] + a * sine[i]);
    }
  };
  from.pair == 1 && to.pair == 1 ? loop(1, 1) : loop(from.pair, to.pair);
  for (std::int64_t j = 2 * pairs; j < columns; ++j) y[j * to.element] = x[j * from.element];
}

// The offsets of all rows at position 0.
std::vector<std::int64_t> offsets_of_rows(const Tensor& x) {
  Shape shape = x.shape();
  shape[x.dims() - 2] = shape[x.dims() - 1] = 1;
  std::vector<std::int64_t> offsets;
  for_each_offset(shape, x.strides(), [&](std::int64_t offset) { offsets.push_back(offset); });
  return offsets;
}

Steps steps_of(const Tensor& x, const RotaryOptions& options) {
  const std::int64_t element = x.strides().back();
  return options.interleaved ? Steps{2 * element, element, element}
                             : Steps{element, options.size / 2 * element, element};
}

template <class T>
void run(const RotaryCall& call) {
  const Tensor &x = call.x, &y = call.y;
  const int position_axis = x.dims() - 2;
  const std::int64_t columns = x.shape().back(), positions = x.shape()[position_axis];
  const std::int64_t x_step = x.strides()[position_axis], y_step = y.strides()[position_axis];
  const std::vector<std::int64_t> x_rows = offsets_of_rows(x), y_rows = offsets_of_rows(y);
  const Steps from = steps_of(x, call.options), to = steps_of(y, call.options);
  const auto work = columns * (16 + static_cast<std::int64_t>(x_rows.size()));
  parallel_for(positions, 1 + 30'000 / work, [&](std::int64_t begin, std::int64_t end) {
    Turns<MathType<T>> turns(call.options);
    for (std::int64_t t = begin; t < end; ++t) {
      compute(static_cast<double>(call.options.offset + t), call.sign, turns);
      for (std::size_t row = 0; row < x_rows.size(); ++row)
        rotate_row(columns, turns, x.data<T>() + x_rows[row] + t * x_step, from,
                   y.data<T>() + y_rows[row] + t * y_step, to);
    }
  });
}

}  // namespace

void rotary_embedding(const RotaryCall& call) {
  dispatch_floating(call.x.dtype(), [&]<class T>() { run<T>(call); });
}

}  // namespace ringrad::kernels::cpu
