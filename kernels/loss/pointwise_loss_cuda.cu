#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/loss/pointwise_loss.h"
#include "ringrad/kernels/loss/pointwise_loss_ops.h"
#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_plan_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <class Formula, class Math>
struct Value {
  constexpr Math operator()(Math x, Math t, Math w = 1) const { return Formula::value(x, t, w); }
};

// The elements of x are read in packs, those of t and w one by one, from the same cache lines.
template <class Formula, class T>
struct SumOfLosses : reduce_ops::Sum<T>, OneRow {
  using Math = MathType<T>;
  using Merges = reduce_ops::Sum<T>;
  struct Center {};
  const T* t;
  const Math* w;

  SumOfLosses(const T* t, const Math* w) : t(t), w(w) {}
  constexpr Center center(std::int64_t) const { return {}; }
  __device__ Math map(T x, std::int64_t i, Center) const {
    return Formula::value(static_cast<Math>(x), static_cast<Math>(t[i]), w ? w[i] : Math{1});
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

void pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                    const Tensor& parameter, Reduction reduction, const Tensor& result,
                    Where where) {
  const Tensor &t = targets, &w = parameter;
  dispatch_floating(x.dtype(), [&]<class T>() {
    dispatch_loss(loss, [&]<class Formula>(Formula) {
      using Math = MathType<T>;
      if (reduction != Reduction::none) {
        const double divisor = reduction == Reduction::mean ? static_cast<double>(x.numel()) : 1;
        return reduce("pointwise_loss", make_reduce_plan(1, x.numel(), 1),
                      SumOfLosses<Formula, T>(t.device_data<T>(),
                                              w.defined() ? w.device_data<Math>() : nullptr),
                      x.device_data<T>(), Quotient<T>{result.device_data<T>(), divisor}, x.device(),
                      where);
      }
      const Value<Formula, Math> value;
      if constexpr (Formula::kWeighted)
        if (w.defined()) return apply<Math>(value, result, where, x, t, w);
      apply<Math>(value, result, where, x, t);
    });
  });
}

}  // namespace ringrad::kernels::cuda
