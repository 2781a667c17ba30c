// The elementwise functions that are not rows.

#include "ringrad/kernels/elementwise/elementwise_cuda.h"
#include "ringrad/kernels/elementwise/elementwise_rules.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"

namespace ringrad::kernels::cuda {
namespace {

struct AddScaled {
  Scalar alpha;
  template <class T>
  constexpr T operator()(T a, T b) const {
    return a + alpha.as<T>() * b;
  }
};

struct Where3 {
  template <class T>
  constexpr T operator()(bool condition, T a, T b) const {
    return condition ? a : b;
  }
};

struct Lerp {
  template <class T>
  constexpr T operator()(T a, T b, T weight) const {
    return ops::interpolate(a, b, weight);
  }
};

}  // namespace

void add_scaled(const Tensor& y, const Tensor& x, Scalar alpha, Where where) {
  elementwise::dispatch<ops::Domain::number>(math_dtype(y.dtype()), [&]<class T>() {
    map<T, T, T>("add_", AddScaled{alpha}, y, {&y, &x}, where);
  });
}

void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out,
           Where where) {
  elementwise::dispatch<ops::Domain::any>(math_dtype(out.dtype()), [&]<class T>() {
    map<T, bool, T, T>("where", Where3(), out, {&condition, &a, &b}, where);
  });
}

void lerp(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& out, Where where) {
  elementwise::dispatch<ops::Domain::real>(math_dtype(out.dtype()), [&]<class T>() {
    map<T, T, T, T>("lerp", Lerp(), out, {&a, &b, &weight}, where);
  });
}

}  // namespace ringrad::kernels::cuda
