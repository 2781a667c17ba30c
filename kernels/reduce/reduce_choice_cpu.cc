#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_units.h"

namespace ringrad::kernels::cpu {
namespace {

using reduce_units::reduce;

template <template <class> class Choice>
void choose(const ReducePlan& plan, const Tensor& x, const Tensor& result) {
  dispatch_dtype(x.dtype(), [&]<class T>() {
    T* y = result.data<T>();
    reduce<Choice<T>>(plan, x.data<T>(), nullptr,
                      [y](std::int64_t index, const auto* total, std::int64_t n) {
                        for (std::int64_t i = 0; i < n; ++i) y[index + i] = T(total[i]);
                      });
  });
}

}  // namespace

template <bool kLargest>
void extreme(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where) {
  if constexpr (kLargest)
    choose<reduce_ops::Max>(plan, x, result);
  else
    choose<reduce_ops::Min>(plan, x, result);
}
template void extreme<true>(const ReducePlan&, const Tensor&, const Tensor&, Where);
template void extreme<false>(const ReducePlan&, const Tensor&, const Tensor&, Where);

}  // namespace ringrad::kernels::cpu
