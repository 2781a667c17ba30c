#include "ringrad/nn/layers/pool.h"

namespace ringrad::nn {

template <std::size_t N, bool kMax>
SlidingPool<N, kMax>::SlidingPool(PerAxis<N> kernel, const PoolLayerOptions<N>& options)
    : options_{.kernel = kernel, .stride = options.stride, .padding = options.padding} {
  for (std::size_t axis = 0; axis < N; ++axis)
    if (options_.stride[axis] == 0) options_.stride[axis] = kernel[axis];
}

template <std::size_t N, bool kMax>
std::string SlidingPool<N, kMax>::describe() const {
  const bool is_padded = options_.padding != PerAxis<N>(0);
  return concat(kMax ? "MaxPool" : "AvgPool", N, "d(kernel ", options_.kernel, ", stride ",
                options_.stride, is_padded ? concat(", padding ", options_.padding) : "", ')');
}

template <std::size_t N, bool kMax>
Tensor SlidingPool<N, kMax>::forward(const Tensor& x, Where at) {
  if constexpr (N == 1)
    return kMax ? max_pool1d(x, options_, at) : avg_pool1d(x, options_, at);
  else if constexpr (N == 2)
    return kMax ? max_pool2d(x, options_, at) : avg_pool2d(x, options_, at);
  else
    return kMax ? max_pool3d(x, options_, at) : avg_pool3d(x, options_, at);
}

template class SlidingPool<1, true>;
template class SlidingPool<2, true>;
template class SlidingPool<3, true>;
template class SlidingPool<1, false>;
template class SlidingPool<2, false>;
template class SlidingPool<3, false>;

Tensor AdaptiveAvgPool2d::forward(const Tensor& x, Where at) {
  return adaptive_avg_pool2d(x, output_size_, at);
}

std::string AdaptiveAvgPool2d::describe() const {
  return concat("AdaptiveAvgPool2d(", output_size_, ')');
}

}  // namespace ringrad::nn
