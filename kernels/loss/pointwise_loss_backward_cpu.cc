#include "ringrad/core/simd.h"
#include "ringrad/kernels/loss/pointwise_loss_elements.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

using pointwise_losses::dispatch_elements;
using pointwise_losses::kGrain;

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

}  // namespace

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
