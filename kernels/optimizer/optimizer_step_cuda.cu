#include "ringrad/kernels/optimizer/optimizer_step_ops.h"
#include "ringrad/kernels/optimizer/step_cuda.cuh"
#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_plan_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

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
  if (step().momentum == 0)
    run_step<SgdRule>("sgd_step", parameters, gradients, {}, {}, step, where);
  else
    run_step<MomentumSgdRule>("sgd_step", parameters, gradients, buffer, {}, step, where);
}

void adam_step(const Tensor& parameters, const Tensor& gradients, const Tensor& first_moment,
               const Tensor& second_moment, const std::function<AdamStep()>& step, Where where) {
  run_step<AdamRule>("adam_step", parameters, gradients, first_moment, second_moment, step, where);
}

void rmsprop_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_average,
                  const Tensor& buffer, const std::function<RmspropStep()>& step, Where where) {
  if (step().momentum == 0)
    run_step<RmspropRule>("rmsprop_step", parameters, gradients, square_average, {}, step, where);
  else
    run_step<MomentumRmspropRule>("rmsprop_step", parameters, gradients, square_average, buffer,
                                  step, where);
}

void adagrad_step(const Tensor& parameters, const Tensor& gradients, const Tensor& square_sum,
                  const std::function<AdagradStep()>& step, Where where) {
  run_step<AdagradRule>("adagrad_step", parameters, gradients, square_sum, {}, step, where);
}

void lion_step(const Tensor& parameters, const Tensor& gradients, const Tensor& momentum,
               const std::function<LionStep()>& step, Where where) {
  run_step<LionRule>("lion_step", parameters, gradients, momentum, {}, step, where);
}

void sum_of_squares(const Tensor& x, const Tensor& result, Where where) {
  dispatch_floating(x.dtype(), [&]<class T>() {
    reduce("sum_of_squares", make_reduce_plan(1, x.numel(), 1), SumOfSquares<T>(),
           x.device_data<T>(), Converted<double>{result.device_data<double>()}, x.device(), where);
  });
}

}  // namespace ringrad::kernels::cuda
