#include <algorithm>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/elementwise/math.h"
#include "ringrad/kernels/loss/pointwise_loss_ops.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// Applies the formula of a loss to element i of its operands. w may be null.
template <class Formula, class T>
struct Elements {
  using Math = MathType<T>;
  const T *x, *t, *w;

  static Math number(const T* from, std::int64_t i) { return static_cast<Math>(from[i]); }
  Math weight(std::int64_t i) const { return w ? number(w, i) : Math{1}; }
  Math value(std::int64_t i) const { return Formula::value(number(x, i), number(t, i), weight(i)); }
  Math derivative(std::int64_t i) const {
    return Formula::derivative(number(x, i), number(t, i), weight(i));
  }
};

template <class T, class Body>
void dispatch_elements(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                       const Tensor& parameter, Body body) {
  dispatch_loss(loss, [&]<class Formula>(Formula) {
    body(Elements<Formula, T>{x.data<T>(), targets.data<T>(),
                              parameter.defined() ? parameter.data<T>() : nullptr});
  });
}

template <class Loss, class T>
RINGRAD_CLONES void write_values(Loss loss, std::int64_t begin, std::int64_t end, T* values) {
  for (std::int64_t i = begin; i < end; ++i) values[i] = static_cast<T>(loss.value(i));
}

template <class Math, class Loss>
RINGRAD_CLONES Math sum_values(Loss loss, std::int64_t begin, std::int64_t end) {
  Math sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) sum += loss.value(i);
  return sum;
}

// grad_x[i] = factor * grad[0] * derivative if one_grad, the single gradient of a reduced loss;
// else grad[i] * derivative.
template <class Loss, class T, class Math>
RINGRAD_CLONES void write_derivatives(Loss loss, std::int64_t begin, std::int64_t end,
                                      const T* grad, bool one_grad, Math factor, T* grad_x) {
  if (one_grad) {
    factor *= static_cast<Math>(*grad);
    for (std::int64_t i = begin; i < end; ++i)
      grad_x[i] = static_cast<T>(factor * loss.derivative(i));
  } else {
    for (std::int64_t i = begin; i < end; ++i)
      grad_x[i] = static_cast<T>(static_cast<Math>(grad[i]) * loss.derivative(i));
  }
}

constexpr std::int64_t kGrain = 1 << 15;

// Within a block, sums have the type of the arithmetic and use 16 or more partial sums side by
// side, so each adds at most a few hundred terms. Between blocks, sums are double.
constexpr std::int64_t kBlock = 4096;

template <class Math, class Loss>
double sum_all(Loss loss, std::int64_t n) {
  if (n <= kBlock) return static_cast<double>(sum_values<Math>(loss, 0, n));
  const std::int64_t num_blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> partial(static_cast<std::size_t>(num_blocks));
  parallel_for(num_blocks, kGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      partial[static_cast<std::size_t>(k)] =
          static_cast<double>(sum_values<Math>(loss, k * kBlock, std::min(n, (k + 1) * kBlock)));
  });
  double sum = 0;
  for (double part : partial) sum += part;
  return sum;
}

}  // namespace

void pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                    const Tensor& parameter, Reduction reduction, const Tensor& result) {
  const std::int64_t n = x.numel();
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    T* out = result.data<T>();
    dispatch_elements<T>(loss, x, targets, parameter, [&](auto elements) {
      if (reduction == Reduction::none) {
        parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
          write_values(elements, begin, end, out);
        });
      } else {
        const double sum = sum_all<Math>(elements, n);
        const double divisor = reduction == Reduction::mean ? static_cast<double>(n) : 1;
        *out = static_cast<T>(static_cast<Math>(sum / divisor));
      }
    });
  });
}

void pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                             const Tensor& targets, const Tensor& parameter, Reduction reduction,
                             const Tensor& grad_x) {
  const std::int64_t n = x.numel();
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const T* grad = grad_output.data<T>();
    T* out = grad_x.data<T>();
    const Math factor = reduction == Reduction::mean ? Math{1} / static_cast<Math>(n) : Math{1};
    dispatch_elements<T>(loss, x, targets, parameter, [&](auto elements) {
      parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
        write_derivatives(elements, begin, end, grad, reduction != Reduction::none, factor, out);
      });
    });
  });
}

}  // namespace ringrad::kernels::cpu
