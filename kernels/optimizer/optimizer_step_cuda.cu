#include "ringrad/core/capture.h"
#include "ringrad/kernels/optimizer/optimizer_step_cuda.h"
#include "ringrad/kernels/optimizer/optimizer_step_ops.h"
#include "ringrad/kernels/optimizer/step_cuda.cuh"
#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_plan_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <class Math>
struct PlainSgd {
  static constexpr int kStates = 0;
  SgdFactors<Math> factors;
  bool fresh = false;

  constexpr Math operator()(Math parameter, Math gradient, Math&, Math&) const {
    return factors.plain(parameter, gradient);
  }
};

template <class Math>
struct MomentumSgd {
  static constexpr int kStates = 1;
  SgdFactors<Math> factors;
  bool fresh, nesterov;

  constexpr Math operator()(Math parameter, Math gradient, Math& buffer, Math&) const {
    return factors.with_momentum(parameter, gradient, buffer, fresh, nesterov);
  }
};

template <class Math>
struct Adam {
  static constexpr int kStates = 2;
  AdamFactors<Math> factors;
  bool fresh = false;

  constexpr Math operator()(Math parameter, Math gradient, Math& first_moment,
                            Math& second_moment) const {
    return factors.step(parameter, gradient, first_moment, second_moment);
  }
};

// Sums in double, as l2_norm promises: squares of large numbers do not overflow, and squares of
// small ones do not vanish.
template <class T>
struct SumOfSquares : reduce_ops::Sum<double> {
  using Element = T;
  struct Center {};
  constexpr Center center(std::int64_t) const { return {}; }
  constexpr double map(T x, std::int64_t, Center) const {
    const auto value = static_cast<double>(static_cast<MathType<T>>(x));
    return value * value;
  }
};

}  // namespace

void sgd_step(const Tensor& parameters, const Tensor& gradients, const Tensor& buffer,
              const std::function<SgdStep()>& step, Where where) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    const std::function<PlainSgd<Math>()> plain = [step] {
      return PlainSgd<Math>{SgdFactors<Math>(step())};
    };
    const std::function<MomentumSgd<Math>()> momentum = [step] {
      const SgdStep now = step();
      return MomentumSgd<Math>{SgdFactors<Math>(now), now.first, now.nesterov};
    };
    if (step().momentum == 0)
      launch_step<T>("sgd_step", replayed(plain), parameters, gradients, {}, {}, where);
    else
      launch_step<T>("sgd_step", replayed(momentum), parameters, gradients, buffer, {}, where);
  });
}

void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const std::function<AdamStep()>& step, Where where) {
  dispatch_floating(parameters.dtype(), [&]<class T>() {
    using Rule = Adam<MathType<T>>;
    const std::function<Rule()> rule = [step] { return Rule{AdamFactors<MathType<T>>(step())}; };
    launch_step<T>("adam_step", replayed(rule), parameters, gradients, first_moment, second_moment,
                   where);
  });
}

void sum_of_squares(const Tensor& x, const Tensor& result, Where where) {
  dispatch_floating(x.dtype(), [&]<class T>() {
    reduce("sum_of_squares", make_reduce_plan(1, x.numel(), 1), SumOfSquares<T>(),
           x.device_data<T>(), Converted<double>{result.device_data<double>()}, x.device(), where);
  });
}

}  // namespace ringrad::kernels::cuda
