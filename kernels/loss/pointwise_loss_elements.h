// The operands of a loss of elements on a CPU. Private to kernels/loss/pointwise_loss*_cpu.cc.

#pragma once

#include <cstdint>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/elementwise/math.h"
#include "ringrad/kernels/loss/pointwise_loss_ops.h"

namespace ringrad::kernels::cpu::pointwise_losses {

inline constexpr std::int64_t kGrain = 1 << 15;

// Applies the formula of a loss to element i of its operands. w may be null.
template <class Formula, class T>
struct Elements {
  using Math = MathType<T>;
  const T *x, *t;
  const Math* w;

  static Math number(const T* from, std::int64_t i) { return static_cast<Math>(from[i]); }
  Math weight(std::int64_t i) const { return w ? w[i] : Math{1}; }
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
                              parameter.defined() ? parameter.data<MathType<T>>() : nullptr});
  });
}

}  // namespace ringrad::kernels::cpu::pointwise_losses
