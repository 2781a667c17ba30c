// One step of a recurrent cell, for hidden unit j of sequence b. The same code is the body of the
// CPU's loop and of the GPU's kernel. Private to kernels/.
//
// `input` and `recurrent` are the two shares of the gates: x W_x^T + b_x and h W_h^T + b_h. Rows of
// arrays with several gates are gate after gate: | gate 0, H units | gate 1, H units | ...
//
// Arithmetic is in Math, float32 for the 16-bit dtypes.

#pragma once

#include <cmath>
#include <cstdint>

#include "ringrad/core/dtype.h"

namespace ringrad::kernels {

template <class Math>
constexpr Math sigmoid_of(Math x) {
  return 1 / (1 + std::exp(-x));
}

/// h = tanh(input + recurrent), or the larger of that sum and 0.
template <class T, bool kRelu>
struct PlainForward {
  std::int64_t hidden_size;
  const T *input, *recurrent;
  T *hidden;

  constexpr void operator()(std::int64_t b, std::int64_t j) const {
    using Math = MathType<T>;
    const std::int64_t at = b * hidden_size + j;
    const Math sum = static_cast<Math>(input[at]) + static_cast<Math>(recurrent[at]);
    if constexpr (kRelu)
      hidden[at] = static_cast<T>(sum < 0 ? Math{0} : sum);
    else
      hidden[at] = static_cast<T>(std::tanh(sum));
  }
};

template <class T, bool kRelu>
struct PlainBackward {
  std::int64_t hidden_size;
  const T *hidden, *grad_output, *grad_next;
  T *grad_gates;

  constexpr void operator()(std::int64_t b, std::int64_t j) const {
    using Math = MathType<T>;
    const std::int64_t at = b * hidden_size + j;
    const Math h = static_cast<Math>(hidden[at]);
    const Math grad = static_cast<Math>(grad_output[at]) + static_cast<Math>(grad_next[at]);
    if constexpr (kRelu)
      grad_gates[at] = static_cast<T>(h > 0 ? grad : Math{0});
    else
      grad_gates[at] = static_cast<T>(grad * (1 - h * h));
  }
};

/// With i, f, o sigmoids and g the tanh of their sums:
///
///   c = f c_before + i g,    h = o tanh(c)
///
/// Keeps i, f, g, o.
/// Paper:   Hochreiter and Schmidhuber 1997, "Long short-term memory"; the forget gate is by Gers,
///          Schmidhuber, Cummins 2000
template <class T>
struct LstmForward {
  static constexpr int kSaved = 4;
  std::int64_t hidden_size;
  const T *input, *recurrent, *cell_before;
  T *saved, *cell, *hidden;

  constexpr void operator()(std::int64_t b, std::int64_t j) const {
    using Math = MathType<T>;
    const std::int64_t n = hidden_size, at = b * n + j, gate = 4 * b * n + j;
    const auto sum = [&](std::int64_t k) {
      return static_cast<Math>(input[gate + k * n]) + static_cast<Math>(recurrent[gate + k * n]);
    };
    const Math i = sigmoid_of(sum(0)), f = sigmoid_of(sum(1)), g = std::tanh(sum(2)),
               o = sigmoid_of(sum(3));
    const Math c = f * static_cast<Math>(cell_before[at]) + i * g;
    saved[gate] = static_cast<T>(i);
    saved[gate + n] = static_cast<T>(f);
    saved[gate + 2 * n] = static_cast<T>(g);
    saved[gate + 3 * n] = static_cast<T>(o);
    cell[at] = static_cast<T>(c);
    hidden[at] = static_cast<T>(o * std::tanh(c));
  }
};

/// Replaces grad_cell, the gradient with respect to c, by the gradient with respect to c_before.
template <class T>
struct LstmBackward {
  std::int64_t hidden_size;
  const T *saved, *cell_before, *cell, *grad_output, *grad_next;
  T *grad_cell, *grad_gates;

  constexpr void operator()(std::int64_t b, std::int64_t j) const {
    using Math = MathType<T>;
    const std::int64_t n = hidden_size, at = b * n + j, gate = 4 * b * n + j;
    const auto kept = [&](std::int64_t k) { return static_cast<Math>(saved[gate + k * n]); };
    const Math i = kept(0), f = kept(1), g = kept(2), o = kept(3);
    const Math flat = std::tanh(static_cast<Math>(cell[at]));
    const Math by_h = static_cast<Math>(grad_output[at]) + static_cast<Math>(grad_next[at]);
    const Math by_c = static_cast<Math>(grad_cell[at]) + by_h * o * (1 - flat * flat);
    grad_gates[gate] = static_cast<T>(by_c * g * i * (1 - i));
    grad_gates[gate + n] = static_cast<T>(by_c * static_cast<Math>(cell_before[at]) * f * (1 - f));
    grad_gates[gate + 2 * n] = static_cast<T>(by_c * i * (1 - g * g));
    grad_gates[gate + 3 * n] = static_cast<T>(by_h * flat * o * (1 - o));
    grad_cell[at] = static_cast<T>(by_c * f);
  }
};

/// With q the recurrent share of the third gate:
///
///   r = sigmoid,  z = sigmoid,  n = tanh(input + r q),    h = (1 - z) n + z h_before
///
/// Keeps r, z, n, q.
/// Paper:   Cho et al. 2014, arXiv:1406.1078; r multiplies q as in cuDNN and PyTorch
template <class T>
struct GruForward {
  static constexpr int kSaved = 4;
  std::int64_t hidden_size;
  const T *input, *recurrent, *hidden_before;
  T *saved, *hidden;

  constexpr void operator()(std::int64_t b, std::int64_t j) const {
    using Math = MathType<T>;
    const std::int64_t n = hidden_size, at = b * n + j, gate = 3 * b * n + j, keep = 4 * b * n + j;
    const auto in = [&](std::int64_t k) { return static_cast<Math>(input[gate + k * n]); };
    const auto re = [&](std::int64_t k) { return static_cast<Math>(recurrent[gate + k * n]); };
    const Math reset = sigmoid_of(in(0) + re(0)), update = sigmoid_of(in(1) + re(1)), q = re(2);
    const Math fresh = std::tanh(in(2) + reset * q);
    saved[keep] = static_cast<T>(reset);
    saved[keep + n] = static_cast<T>(update);
    saved[keep + 2 * n] = static_cast<T>(fresh);
    saved[keep + 3 * n] = static_cast<T>(q);
    hidden[at] =
        static_cast<T>((1 - update) * fresh + update * static_cast<Math>(hidden_before[at]));
  }
};

/// grad_direct is the share of the gradient with respect to h that does not come through the gates.
/// Replaces the share that came from the next step by the share for the step before.
template <class T>
struct GruBackward {
  std::int64_t hidden_size;
  const T *saved, *hidden_before, *grad_output, *grad_next;
  T *grad_direct, *grad_input, *grad_recurrent;

  constexpr void operator()(std::int64_t b, std::int64_t j) const {
    using Math = MathType<T>;
    const std::int64_t n = hidden_size, at = b * n + j, gate = 3 * b * n + j;
    const auto kept = [&](std::int64_t k) {
      return static_cast<Math>(saved[4 * b * n + j + k * n]);
    };
    const Math reset = kept(0), update = kept(1), fresh = kept(2), q = kept(3);
    const Math grad = static_cast<Math>(grad_output[at]) + static_cast<Math>(grad_next[at]) +
                      static_cast<Math>(grad_direct[at]);
    const Math by_fresh = grad * (1 - update) * (1 - fresh * fresh);
    const Math by_update =
        grad * (static_cast<Math>(hidden_before[at]) - fresh) * update * (1 - update);
    const Math by_reset = by_fresh * q * reset * (1 - reset);
    grad_input[gate] = grad_recurrent[gate] = static_cast<T>(by_reset);
    grad_input[gate + n] = grad_recurrent[gate + n] = static_cast<T>(by_update);
    grad_input[gate + 2 * n] = static_cast<T>(by_fresh);
    grad_recurrent[gate + 2 * n] = static_cast<T>(by_fresh * reset);
    grad_direct[at] = static_cast<T>(grad * update);
  }
};

}  // namespace ringrad::kernels
