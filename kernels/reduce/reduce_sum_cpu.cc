#include <algorithm>

#include "ringrad/kernels/dispatch_math.h"
#include "ringrad/kernels/reduce/reduce_ops.h"
#include "ringrad/kernels/reduce/reduce_units.h"

namespace ringrad::kernels::cpu {
namespace {

using reduce_ops::Product;
using reduce_ops::Sum;
using reduce_ops::SumDeviations;
using reduce_ops::SumSquaredDeviations;
using reduce_units::reduce;

template <class T>
struct Quotients {
  T* result;
  double divisor;

  void operator()(std::int64_t index, const double* total, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i)
      result[index + i] = T(static_cast<MathType<T>>(total[i] / divisor));
  }
};

// Integers modulo 2^64, stored as int64.
template <class Op>
void store_integers(const ReducePlan& plan, const Tensor& x, const Tensor& result) {
  auto* y = reinterpret_cast<std::uint64_t*>(result.data<std::int64_t>());
  reduce<Op>(plan, x.data<typename Op::Element>(), nullptr,
             [y](std::int64_t index, const std::uint64_t* total, std::int64_t n) {
               std::copy_n(total, n, y + index);
             });
}

template <template <class> class Op>
void reduce_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center,
                       const Tensor& result) {
  dispatch_math(x.dtype(), [&]<class T>() {
    reduce<Op<T>>(plan, x.data<T>(), center.data<double>(),
                  Quotients<double>{result.data<double>(), 1});
  });
}

}  // namespace

void sum(const ReducePlan& plan, const Tensor& x, double divisor, const Tensor& result, Where) {
  dispatch_dtype(x.dtype(), [&]<class T>() {
    if constexpr (is_floating(dtype_of<T>)) {
      reduce<Sum<T>>(plan, x.data<T>(), nullptr, Quotients<T>{result.data<T>(), divisor});
    } else {
      store_integers<Sum<T>>(plan, x, result);
    }
  });
}

void product(const ReducePlan& plan, const Tensor& x, const Tensor& result, Where) {
  const auto run = [&]<class T>() {
    reduce<Product<T>>(plan, x.data<T>(), nullptr, Quotients<T>{result.data<T>(), 1});
  };
  if (x.dtype() == DType::float64) return run.template operator()<double>();
  if (x.dtype() == DType::float32) return run.template operator()<float>();
  store_integers<Product<std::int64_t>>(plan, x, result);
}

void sum_deviations(const ReducePlan& plan, const Tensor& x, const Tensor& center, bool squared,
                    const Tensor& result, Where) {
  squared ? reduce_deviations<SumSquaredDeviations>(plan, x, center, result)
          : reduce_deviations<SumDeviations>(plan, x, center, result);
}

}  // namespace ringrad::kernels::cpu
