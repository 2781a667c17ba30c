#include <cmath>
#include <limits>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/elementwise/math.h"
#include "ringrad/kernels/loss/softmax.h"
#include "ringrad/kernels/loss/softmax_tile.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// Pads the end of a folded row: it is never the maximum, and its exponential is 0.
template <class Math>
constexpr Math kNothing = -std::numeric_limits<Math>::infinity();

// Each of these replaces the loaded values of the first tile by the values to store.

struct Softmax {
  template <class Math>
  static void apply(const Tiles& tiles, Math* x) {
    const Lanes<Math> maximum = row_maxima(tiles, x);
    for_each_value(tiles, x, [&](auto i, auto lane) { return std::exp(x[i] - maximum[lane]); });
    const Lanes<Math> sum = row_sums<Math>(tiles, [&](auto i, auto) { return x[i]; });
    Lanes<Math> scale;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) scale[lane] = 1 / sum[lane];
    for_each_value(tiles, x, [&](auto i, auto lane) { return x[i] * scale[lane]; });
  }
};

struct LogSoftmax {
  template <class Math>
  static void apply(const Tiles& tiles, Math* x) {
    const Lanes<Math> maximum = row_maxima(tiles, x);
    const Lanes<Math> sum =
        row_sums<Math>(tiles, [&](auto i, auto lane) { return std::exp(x[i] - maximum[lane]); });
    Lanes<Math> log_sum;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) log_sum[lane] = std::log(sum[lane]);
    for_each_value(tiles, x,
                   [&](auto i, auto lane) { return x[i] - maximum[lane] - log_sum[lane]; });
  }
};

struct SoftmaxBackward {
  template <class Math>
  static void apply(const Tiles& tiles, Math* grad, const Math* y) {
    const Lanes<Math> sum = row_sums<Math>(tiles, [&](auto i, auto) { return grad[i] * y[i]; });
    for_each_value(tiles, grad, [&](auto i, auto lane) { return y[i] * (grad[i] - sum[lane]); });
  }
};

struct LogSoftmaxBackward {
  template <class Math>
  static void apply(const Tiles& tiles, Math* grad, const Math* y) {
    const Lanes<Math> sum = row_sums<Math>(tiles, [&](auto i, auto) { return grad[i]; });
    for_each_value(tiles, grad,
                   [&](auto i, auto lane) { return grad[i] - std::exp(y[i]) * sum[lane]; });
  }
};

template <class Formula, class T>
RINGRAD_CLONES void run_forward(const Tiles& tiles, std::int64_t begin, std::int64_t end,
                                const T* x, T* y, MathType<T>* scratch) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    tiles.load(tile, x, kNothing<MathType<T>>, scratch);
    Formula::apply(tiles, scratch);
    tiles.store(tile, scratch, y);
  }
}

template <class Formula, class T>
RINGRAD_CLONES void run_backward(const Tiles& tiles, std::int64_t begin, std::int64_t end,
                                 const T* grad, const T* y, T* grad_input, MathType<T>* scratch) {
  MathType<T>* const y_scratch = scratch + tiles.depth() * kLanes;
  for (std::int64_t tile = begin; tile < end; ++tile) {
    tiles.load(tile, grad, MathType<T>{0}, scratch);
    tiles.load(tile, y, MathType<T>{0}, y_scratch);
    Formula::apply(tiles, scratch, y_scratch);
    tiles.store(tile, scratch, grad_input);
  }
}

template <class Formula>
void forward(const Tensor& x, int axis, const Tensor& y) {
  const Tiles tiles(x, axis);
  dispatch_floating(x.dtype(), [&]<class T>() {
    parallel_for(tiles.count(), tiles.grain(), [&](std::int64_t begin, std::int64_t end) {
      const Tensor scratch = empty({tiles.depth(), kLanes}, {.dtype = dtype_of<MathType<T>>});
      run_forward<Formula>(tiles, begin, end, x.data<T>(), y.data<T>(),
                           scratch.data<MathType<T>>());
    });
  });
}

template <class Formula>
void backward(const Tensor& grad_output, const Tensor& y, int axis, const Tensor& grad_input) {
  const Tiles tiles(y, axis);
  dispatch_floating(y.dtype(), [&]<class T>() {
    parallel_for(tiles.count(), tiles.grain(), [&](std::int64_t begin, std::int64_t end) {
      const Tensor scratch = empty({2, tiles.depth(), kLanes}, {.dtype = dtype_of<MathType<T>>});
      run_backward<Formula>(tiles, begin, end, grad_output.data<T>(), y.data<T>(),
                            grad_input.data<T>(), scratch.data<MathType<T>>());
    });
  });
}

}  // namespace

void softmax(const Tensor& x, int axis, const Tensor& y) { forward<Softmax>(x, axis, y); }

void log_softmax(const Tensor& x, int axis, const Tensor& y) { forward<LogSoftmax>(x, axis, y); }

void softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                      const Tensor& grad_input) {
  backward<SoftmaxBackward>(grad_output, y, axis, grad_input);
}

void log_softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                          const Tensor& grad_input) {
  backward<LogSoftmaxBackward>(grad_output, y, axis, grad_input);
}

}  // namespace ringrad::kernels::cpu
