#include <algorithm>
#include <cmath>
#include <vector>

#include "core/simd.h"
#include "kernels/optimizer_step.h"
#include "kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

// A step's constants in the type of the arithmetic.
template <class Math>
struct SgdFactors {
  explicit SgdFactors(const SgdStep& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        weight_decay(static_cast<Math>(step.weight_decay)),
        momentum(static_cast<Math>(step.momentum)),
        undamped(static_cast<Math>(1 - step.dampening)),
        learning_rate(static_cast<Math>(step.learning_rate)) {}

  Math grad_scale, weight_decay, momentum, undamped, learning_rate;
};

template <class T, class Math>
RINGRAD_CLONES void plain_sgd(T* parameter, const T* gradient, std::int64_t begin, std::int64_t end,
                              SgdFactors<Math> f) {
  for (std::int64_t i = begin; i < end; ++i) {
    const Math p = static_cast<Math>(parameter[i]);
    const Math g = f.grad_scale * static_cast<Math>(gradient[i]) + f.weight_decay * p;
    parameter[i] = static_cast<T>(p - f.learning_rate * g);
  }
}

// kFirst: what the buffer holds is not read, since it may be anything.
template <bool kFirst, bool kNesterov, class T, class Math>
RINGRAD_CLONES void momentum_sgd(T* parameter, const T* gradient, Math* buffer, std::int64_t begin,
                                 std::int64_t end, SgdFactors<Math> f) {
  for (std::int64_t i = begin; i < end; ++i) {
    const Math p = static_cast<Math>(parameter[i]);
    const Math g = f.grad_scale * static_cast<Math>(gradient[i]) + f.weight_decay * p;
    const Math velocity = kFirst ? g : f.momentum * buffer[i] + f.undamped * g;
    buffer[i] = velocity;
    parameter[i] =
        static_cast<T>(p - f.learning_rate * (kNesterov ? g + f.momentum * velocity : velocity));
  }
}

// Adam's update with the bias corrections moved out of the loop:
//
//     lr / c1 * m / (sqrt(v / c2) + eps),   c = 1 - beta^step
template <class Math>
struct AdamFactors {
  explicit AdamFactors(const AdamStep& step)
      : grad_scale(static_cast<Math>(step.grad_scale)),
        grad_decay(static_cast<Math>(step.decoupled ? 0 : step.weight_decay)),
        keep(static_cast<Math>(step.decoupled ? 1 - step.learning_rate * step.weight_decay : 1)),
        beta1(static_cast<Math>(step.beta1)),
        rest1(static_cast<Math>(1 - step.beta1)),
        beta2(static_cast<Math>(step.beta2)),
        rest2(static_cast<Math>(1 - step.beta2)),
        eps(static_cast<Math>(step.eps)) {
    const auto n = static_cast<double>(step.step);
    rate = static_cast<Math>(step.learning_rate / (1 - std::pow(step.beta1, n)));
    root_scale = static_cast<Math>(1 / std::sqrt(1 - std::pow(step.beta2, n)));
  }

  Math grad_scale, grad_decay, keep, beta1, rest1, beta2, rest2, eps, rate, root_scale;
};

template <class T, class Math>
RINGRAD_CLONES void adam(T* parameter, const T* gradient, Math* first_moment, Math* second_moment,
                         std::int64_t begin, std::int64_t end, AdamFactors<Math> f) {
  for (std::int64_t i = begin; i < end; ++i) {
    const Math p = static_cast<Math>(parameter[i]);
    const Math g = f.grad_scale * static_cast<Math>(gradient[i]) + f.grad_decay * p;
    const Math m = f.beta1 * first_moment[i] + f.rest1 * g;
    const Math v = f.beta2 * second_moment[i] + f.rest2 * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    parameter[i] = static_cast<T>(f.keep * p - f.rate * m / (std::sqrt(v) * f.root_scale + f.eps));
  }
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

// Fixed blocks, added up in order: the same sum for any number of threads.
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
