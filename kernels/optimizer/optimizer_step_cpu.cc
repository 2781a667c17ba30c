#include <algorithm>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/optimizer/optimizer_step_ops.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

template <class T, class Math>
RINGRAD_CLONES void plain_sgd(T* parameter, const T* gradient, std::int64_t begin, std::int64_t end,
                              SgdFactors<Math> f) {
  for (std::int64_t i = begin; i < end; ++i)
    parameter[i] =
        static_cast<T>(f.plain(static_cast<Math>(parameter[i]), static_cast<Math>(gradient[i])));
}

template <bool kFirst, bool kNesterov, class T, class Math>
RINGRAD_CLONES void momentum_sgd(T* parameter, const T* gradient, Math* buffer, std::int64_t begin,
                                 std::int64_t end, SgdFactors<Math> f) {
  for (std::int64_t i = begin; i < end; ++i)
    parameter[i] = static_cast<T>(f.with_momentum(static_cast<Math>(parameter[i]),
                                                  static_cast<Math>(gradient[i]), buffer[i], kFirst,
                                                  kNesterov));
}

template <class T, class Math>
RINGRAD_CLONES void adam(T* parameter, const T* gradient, Math* first_moment, Math* second_moment,
                         std::int64_t begin, std::int64_t end, AdamFactors<Math> f) {
  for (std::int64_t i = begin; i < end; ++i)
    parameter[i] =
        static_cast<T>(f.step(static_cast<Math>(parameter[i]), static_cast<Math>(gradient[i]),
                              first_moment[i], second_moment[i]));
}

template <class T>
RINGRAD_CLONES double square_block(const T* x, std::int64_t begin, std::int64_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) {
    const auto value = static_cast<double>(static_cast<MathType<T>>(x[i]));
    sum += value * value;
  }
  return sum;
}

}  // namespace

void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const SgdStep& step) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const SgdFactors<Math> factors(step);
    T* parameter = parameters.data<T>();
    const T* gradient = gradients.data<T>();
    Math* velocity = step.momentum != 0 ? buffer.data<Math>() : nullptr;
    parallel_for(parameters.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (!velocity)
        plain_sgd(parameter, gradient, begin, end, factors);
      else if (step.first && step.nesterov)
        momentum_sgd<true, true>(parameter, gradient, velocity, begin, end, factors);
      else if (step.first)
        momentum_sgd<true, false>(parameter, gradient, velocity, begin, end, factors);
      else if (step.nesterov)
        momentum_sgd<false, true>(parameter, gradient, velocity, begin, end, factors);
      else
        momentum_sgd<false, false>(parameter, gradient, velocity, begin, end, factors);
    });
  });
}

void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const AdamStep& step) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const AdamFactors<Math> factors(step);
    parallel_for(parameters.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      adam(parameters.data<T>(), gradients.data<T>(), first_moment.data<Math>(),
           second_moment.data<Math>(), begin, end, factors);
    });
  });
}

// Fixed blocks, added in order: the sum is the same for any number of threads.
double sum_of_squares(const Tensor& x) {
  constexpr std::int64_t kBlock = 1 << 13;
  const std::int64_t n = x.numel(), num_blocks = (n + kBlock - 1) / kBlock;
  return dispatch_floating(x.dtype(), [&]<class T>() {
    const T* values = x.data<T>();
    if (num_blocks <= 1) return square_block(values, 0, n);
    std::vector<double> partial(static_cast<std::size_t>(num_blocks));
    parallel_for(num_blocks, kGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end; ++k)
        partial[static_cast<std::size_t>(k)] =
            square_block(values, k * kBlock, std::min(n, (k + 1) * kBlock));
    });
    double sum = 0;
    for (double part : partial) sum += part;
    return sum;
  });
}

}  // namespace ringrad::kernels::cpu
