#include "ringrad/nn/layers/pool.h"

namespace ringrad::nn {
namespace {

ringrad::Pool2dOptions options_for(std::int64_t kernel, const Pool2dOptions& options) {
  const std::int64_t stride = options.stride ? options.stride : kernel;
  return {.kernel = {kernel, kernel},
          .stride = {stride, stride},
          .padding = {options.padding, options.padding}};
}

ringrad::Pool1dOptions options_of_row(std::int64_t kernel, const Pool2dOptions& options) {
  return {.kernel = kernel,
          .stride = options.stride ? options.stride : kernel,
          .padding = options.padding};
}

std::string describe_pool(const char* name, const ringrad::Pool1dOptions& options) {
  return concat(name, "(kernel ", options.kernel, ", stride ", options.stride,
                options.padding ? concat(", padding ", options.padding) : "", ')');
}

std::string describe_pool(const char* name, const ringrad::Pool2dOptions& options) {
  return describe_pool(name, ringrad::Pool1dOptions{.kernel = options.kernel[0],
                                                    .stride = options.stride[0],
                                                    .padding = options.padding[0]});
}

}  // namespace

MaxPool2d::MaxPool2d(std::int64_t kernel, const Pool2dOptions& options)
    : options_(options_for(kernel, options)) {}

Tensor MaxPool2d::forward(const Tensor& x, Where at) { return max_pool2d(x, options_, at); }

std::string MaxPool2d::describe() const { return describe_pool("MaxPool2d", options_); }

AvgPool2d::AvgPool2d(std::int64_t kernel, const Pool2dOptions& options)
    : options_(options_for(kernel, options)) {}

Tensor AvgPool2d::forward(const Tensor& x, Where at) { return avg_pool2d(x, options_, at); }

std::string AvgPool2d::describe() const { return describe_pool("AvgPool2d", options_); }

MaxPool1d::MaxPool1d(std::int64_t kernel, const Pool2dOptions& options)
    : options_(options_of_row(kernel, options)) {}

Tensor MaxPool1d::forward(const Tensor& x, Where at) { return max_pool1d(x, options_, at); }

std::string MaxPool1d::describe() const { return describe_pool("MaxPool1d", options_); }

AvgPool1d::AvgPool1d(std::int64_t kernel, const Pool2dOptions& options)
    : options_(options_of_row(kernel, options)) {}

Tensor AvgPool1d::forward(const Tensor& x, Where at) { return avg_pool1d(x, options_, at); }

std::string AvgPool1d::describe() const { return describe_pool("AvgPool1d", options_); }

Tensor AdaptiveAvgPool2d::forward(const Tensor& x, Where at) {
  return adaptive_avg_pool2d(x, {output_size_, output_size_}, at);
}

std::string AdaptiveAvgPool2d::describe() const {
  return concat("AdaptiveAvgPool2d(", output_size_, ')');
}

}  // namespace ringrad::nn
