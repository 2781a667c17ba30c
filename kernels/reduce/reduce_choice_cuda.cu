#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_plan_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

template <template <class> class Choice>
void choose(const char* name, const ReducePlan& plan, const Tensor& x, const Tensor& result,
            Where where) {
  dispatch_dtype(x.dtype(), [&]<class Stored>() {
    using T = Merged<Stored>;
    reduce(name, plan, Plain<Choice<T>>(), reinterpret_cast<const T*>(x.raw_data()),
           Converted<T>{reinterpret_cast<T*>(result.raw_data())}, x.device(), where);
  });
}

}  // namespace

template <bool kLargest>
void extreme(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where) {
  if constexpr (kLargest)
    choose<reduce_ops::Max>("max", plan, x, result, where);
  else
    choose<reduce_ops::Min>("min", plan, x, result, where);
}
template void extreme<true>(const ReducePlan&, const Tensor&, const Tensor&, Where);
template void extreme<false>(const ReducePlan&, const Tensor&, const Tensor&, Where);

}  // namespace ringrad::kernels::cuda
