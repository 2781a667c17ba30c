#include "ringrad/nn/layers/pool.h"

#include "ringrad/nn/layers/every_axis.h"

namespace ringrad::nn {

std::string SlidingPool::describe() const {
  return concat(name_, "(kernel ", kernel_, ", stride ", stride_,
                padding_ ? concat(", padding ", padding_) : "", ')');
}

template <class Options>
Options SlidingPool::options_of() const {
  return {
      .kernel = EveryAxis{kernel_}, .stride = EveryAxis{stride_}, .padding = EveryAxis{padding_}};
}

Tensor MaxPool1d::forward(const Tensor& x, Where at) {
  return max_pool1d(x, options_of<ringrad::Pool1dOptions>(), at);
}

Tensor MaxPool2d::forward(const Tensor& x, Where at) {
  return max_pool2d(x, options_of<ringrad::Pool2dOptions>(), at);
}

Tensor MaxPool3d::forward(const Tensor& x, Where at) {
  return max_pool3d(x, options_of<ringrad::Pool3dOptions>(), at);
}

Tensor AvgPool1d::forward(const Tensor& x, Where at) {
  return avg_pool1d(x, options_of<ringrad::Pool1dOptions>(), at);
}

Tensor AvgPool2d::forward(const Tensor& x, Where at) {
  return avg_pool2d(x, options_of<ringrad::Pool2dOptions>(), at);
}

Tensor AvgPool3d::forward(const Tensor& x, Where at) {
  return avg_pool3d(x, options_of<ringrad::Pool3dOptions>(), at);
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x, Where at) {
  return adaptive_avg_pool2d(x, {output_size_, output_size_}, at);
}

std::string AdaptiveAvgPool2d::describe() const {
  return concat("AdaptiveAvgPool2d(", output_size_, ')');
}

}  // namespace ringrad::nn
