// What a thread needs to compute a score and its gradient: heads with strides, the mask, dropout.
// Private to kernels/attention/*_cuda.cu.

#pragma once

#include <cstdint>
#include <limits>

#include "ringrad/core/gpu/cuda.h"
#include "ringrad/core/random/philox.h"
#include "ringrad/kernels/problem/attention_call.h"

namespace ringrad::kernels::cuda {

/// A tensor (B, heads, rows, columns) of any strides.
template <class T>
struct Heads {
  T* data;
  std::int64_t batch, head, row, column;  // strides

  explicit Heads(const Tensor& x)
      : data(x.device_data<T>()),
        batch(x.strides()[0]),
        head(x.strides()[1]),
        row(x.strides()[2]),
        column(x.strides()[3]) {}

  __device__ T* find(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return data + b * batch + h * head + i * row;
  }
};

/// Element (b, h, t, s) of the mask, and what dropout does to the probability there.
template <class Math>
struct ScoreRules {
  AttentionProblem a;
  const bool* allowed = nullptr;
  const Math* added = nullptr;
  std::int64_t strides[4] = {};
  double p;
  std::int64_t last_kept_word;
  Math kept_factor;
  std::uint64_t seed;
  Replayed<std::uint64_t> counter;

  template <class Call>
  explicit ScoreRules(const Call& call)
      : a(call.a),
        p(call.dropout.p),
        last_kept_word(call.dropout.last_kept_word()),
        kept_factor(static_cast<Math>(call.dropout.scale())),
        seed(call.dropout.seed),
        counter(call.dropout.counter) {
    if (!call.mask.defined()) return;
    if (call.mask.dtype() == DType::bool_)
      allowed = call.mask.template device_data<const bool>();
    else
      added = call.mask.template device_data<const Math>();
    for (int axis = 0; axis < 4; ++axis) strides[axis] = call.mask.strides()[axis];
  }

  /// The score, from the product of query and key.
  __device__ Math score(Math product, std::int64_t b, std::int64_t h, std::int64_t t,
                        std::int64_t s) const {
    return masked(static_cast<Math>(a.scale) * product, mask_place(b, h, t, s));
  }

  __device__ std::int64_t mask_place(std::int64_t b, std::int64_t h, std::int64_t t,
                                     std::int64_t s) const {
    return b * strides[0] + h * strides[1] + t * strides[2] + s * strides[3];
  }
  /// The score, from scale * product.
  __device__ Math masked(Math scaled, std::int64_t place) const {
    if (allowed) return allowed[place] ? scaled : -std::numeric_limits<Math>::infinity();
    return added ? scaled + added[place] : scaled;
  }

  /// The factor of the probability: 0 if it is dropped.
  __device__ Math dropout_factor(std::int64_t b, std::int64_t h, std::int64_t t,
                                 std::int64_t s) const {
    if (p == 0) return 1;
    const auto i = static_cast<std::uint64_t>(((b * a.H + h) * a.T + t) * a.S + s);
    const auto words = philox(seed, (counter.place ? *counter.place : counter.value) + i / 4);
    std::uint32_t word = words[0];  // words[i % 4], without an array in slow memory
#pragma unroll
    for (unsigned k = 1; k < 4; ++k)
      if (i % 4 == k) word = words[k];
    return std::int64_t{word} <= last_kept_word ? kept_factor : Math{0};
  }
};

/// The logarithm of a probability. A score near 1e6 and its logsumexp are rounded so much that
/// their difference may be positive, and its exponential many times the right probability.
template <class Math>
__device__ Math at_most_zero(Math difference) {
  return difference > 0 ? Math{0} : difference;  // keeps NaN
}

/// Sum of the products of two rows.
template <class Math, class T>
__device__ Math dot(const T* x, std::int64_t x_step, const T* y, std::int64_t y_step,
                    std::int64_t size) {
  Math sum = 0;
  for (std::int64_t d = 0; d < size; ++d)
    sum += static_cast<Math>(x[d * x_step]) * static_cast<Math>(y[d * y_step]);
  return sum;
}

}  // namespace ringrad::kernels::cuda
