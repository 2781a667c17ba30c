#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/loss/pointwise_loss.h"
#include "ringrad/kernels/loss/pointwise_loss_ops.h"

namespace ringrad::kernels::cuda {
namespace {

template <class Formula, class Math>
struct Derivative {
  constexpr Math operator()(Math grad, Math x, Math t, Math w = 1) const {
    return grad * Formula::derivative(x, t, w);
  }
};

// The single gradient of a reduced loss is read by every thread. It is not an operand, because
// operands are elementwise.
template <class Formula, class Math>
struct DerivativeOfReduced {
  const void* grad;
  DType dtype;
  Math factor;
  __device__ Math operator()(Math x, Math t, Math w = 1) const {
    return factor * load<Math>(grad, dtype, 0) * Formula::derivative(x, t, w);
  }
};

template <class T, class>
using As = T;

// out = function(operands...)
template <class Math, class Function, class... Operands>
void apply(const Function& function, const Tensor& out, Where where, const Operands&... operands) {
  map<Math, As<Math, Operands>...>("pointwise_loss", function, out, {&operands...}, where);
}

}  // namespace

void pointwise_loss_backward(PointwiseLoss loss, const Tensor& grad_output, const Tensor& x,
                             const Tensor& targets, const Tensor& parameter, Reduction reduction,
                             const Tensor& grad_x, Where where) {
  const Tensor &t = targets, &w = parameter;
  dispatch_math(x.dtype(), [&]<class Math>() {
    dispatch_loss(loss, [&]<class Formula>(Formula) {
      const auto run = [&](const auto& function, const auto&... grad) {
        if constexpr (Formula::kWeighted)
          if (w.defined()) return apply<Math>(function, grad_x, where, grad..., x, t, w);
        apply<Math>(function, grad_x, where, grad..., x, t);
      };
      if (reduction == Reduction::none) return run(Derivative<Formula, Math>(), grad_output);
      const Math n = reduction == Reduction::mean ? static_cast<Math>(x.numel()) : Math{1};
      run(DerivativeOfReduced<Formula, Math>{grad_output.raw_data(), grad_output.dtype(), 1 / n});
    });
  });
}

}  // namespace ringrad::kernels::cuda
