#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_plan_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

// An operation on the distance of an element from the center of its result.
template <template <class> class Op, class T>
struct Deviations : Op<T> {
  using Center = double;
  const double* centers;  // (num_results)
  std::int64_t num_results;

  Deviations(const double* centers, std::int64_t num_results)
      : centers(centers), num_results(num_results) {}

  __device__ double center(std::int64_t result) const { return centers[result % num_results]; }
  constexpr double map(T x, std::int64_t, double center) const { return Op<T>::map(x, center); }
};

template <template <class> class Op>
void reduce_deviations(const char* name, const ReducePlan& plan, const Tensor& x,
                       const Tensor& center, const Tensor& result, Where where) {
  dispatch_math(x.dtype(), [&]<class T>() {
    reduce(name, plan, Deviations<Op, T>(center.device_data<double>(), plan.num_results),
           x.device_data<T>(), Quotient<double>{result.device_data<double>(), 1}, x.device(),
           where);
  });
}

}  // namespace

void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result,
         Where where) {
  dispatch_dtype(x.dtype(), [&]<class Stored>() {
    using T = Merged<Stored>;
    const auto run = [&](const auto& finish) {
      reduce("sum", plan, Plain<reduce_ops::Sum<T>>(), reinterpret_cast<const T*>(x.raw_data()),
             finish, x.device(), where);
    };
    if constexpr (is_floating(dtype_of<T>))
      run(Quotient<T>{result.device_data<T>(), divisor});
    else
      run(Converted<std::uint64_t>{reinterpret_cast<std::uint64_t*>(result.raw_data())});
  });
}

void product(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where where) {
  const auto run = [&]<class T>(const auto& finish) {
    reduce("prod", plan, Plain<reduce_ops::Product<T>>(), x.device_data<T>(), finish, x.device(),
           where);
  };
  if (x.dtype() == DType::float64)
    return run.template operator()<double>(Quotient<double>{result.device_data<double>(), 1});
  if (x.dtype() == DType::float32)
    return run.template operator()<float>(Quotient<float>{result.device_data<float>(), 1});
  run.template operator()<std::int64_t>(
      Converted<std::uint64_t>{reinterpret_cast<std::uint64_t*>(result.raw_data())});
}

void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center, bool squared,
                    const Tensor& result, Where where) {
  if (squared)
    reduce_deviations<reduce_ops::SumSquaredDeviations>("sum_squared_deviations", plan, x, center,
                                                        result, where);
  else
    reduce_deviations<reduce_ops::SumDeviations>("sum_deviations", plan, x, center, result, where);
}

}  // namespace ringrad::kernels::cuda
