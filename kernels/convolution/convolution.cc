#include "ringrad/kernels/convolution/convolution.h"

#include <array>
#include <limits>

#include "ringrad/kernels/convolution/convolution_cpu.h"
#include "ringrad/kernels/convolution/convolution_cuda.h"
#include "ringrad/kernels/convolution/winograd.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad::kernels {
namespace {

using Geometry = ConvolutionGeometry;

void check_options(const char* operation, const Conv2dOptions& options, Where where) {
  // Products of these with an extent must fit into 64 bits.
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  for (unsigned i = 0; i < 2; ++i)
    RINGRAD_CHECK(
        options.stride[i] > 0 && options.stride[i] <= kMax && options.dilation[i] > 0 &&
            options.dilation[i] <= kMax && options.padding[i] >= 0 && options.padding[i] <= kMax,
        ValueError, where, operation,
        ": stride and dilation must be positive, padding not negative, all below 2^31; "
        "got stride ",
        options.stride[i], ", dilation ", options.dilation[i], ", padding ", options.padding[i]);
  RINGRAD_CHECK(options.groups > 0, ValueError, where, operation, ": groups must be positive; got ",
                options.groups);
}

/// The geometry of x and weight, as their shapes give it.
Geometry geometry_of(const char* operation, const Shape& x, const Shape& weight,
                     const Conv2dOptions& options, Where where) {
  check_options(operation, options, where);
  RINGRAD_CHECK(x.size() == 4 && weight.size() == 4, ShapeError, where, operation,
                ": input must be (B, C, H, W) and weight (K, C / groups, R, S); got ", x, " and ",
                weight);
  Geometry g{.B = x[0],
             .C = x[1],
             .H = x[2],
             .W = x[3],
             .K = weight[0],
             .P = 0,
             .Q = 0,
             .R = weight[2],
             .S = weight[3],
             .options = options};
  RINGRAD_CHECK(
      g.C % options.groups == 0 && g.K % options.groups == 0 && g.C / options.groups == weight[1],
      ShapeError, where, operation,
      ": weight must be (K, C / groups, R, S), K a multiple of groups; got input ", x, ", weight ",
      weight, " and groups ", options.groups);
  RINGRAD_CHECK(g.R > 0 && g.S > 0, ShapeError, where, operation,
                ": the filter must have taps; got weight ", weight);
  const auto outputs = [&](unsigned axis, std::int64_t extent, std::int64_t taps) {
    const std::int64_t span = options.dilation[axis] * (taps - 1) + 1;
    const std::int64_t room = extent + 2 * options.padding[axis] - span;
    RINGRAD_CHECK(room >= 0, ShapeError, where, operation,
                  ": the filter must fit into the padded input; got an extent of ",
                  extent + 2 * options.padding[axis], " for a filter spanning ", span);
    return room / options.stride[axis] + 1;
  };
  g.P = outputs(0, g.H, g.R);
  g.Q = outputs(1, g.W, g.S);
  return g;
}

void check_gradient(const char* operation, const Tensor& grad_output, const Geometry& g,
                    Where where) {
  RINGRAD_CHECK(grad_output.shape() == (Shape{g.B, g.K, g.P, g.Q}), ShapeError, where, operation,
                ": the gradient must have the output's shape ", Shape{g.B, g.K, g.P, g.Q}, "; got ",
                grad_output.shape());
}

void check_agreement(const char* operation, const Tensor& a, const Tensor& b, Where where) {
  check_floating(operation, a, where);
  check_same_dtype(operation, a, b, where);
  check_same_device(operation, a, b, where);
}

/// The dtype in which kernels take images and filters: GPU kernels read 16-bit floats directly.
DType kernel_dtype(const Tensor& x) {
  return x.device().is_cuda() || x.dtype() == DType::float64 ? x.dtype() : DType::float32;
}

Tensor as_image(const Tensor& x, Where where) {
  return to_layout(cast(x, kernel_dtype(x), where), Layout::channels_last, where);
}

/// On a GPU filters keep their order, since each GPU kernel needs a different one.
Tensor as_filter(const Tensor& x, Where where) {
  return x.device().is_cuda() ? x : contiguous(cast(x, kernel_dtype(x), where), where);
}

Tensor empty_image(const Shape& shape, const Tensor& like, Where where) {
  return empty(
      shape,
      {.dtype = kernel_dtype(like), .device = like.device(), .layout = Layout::channels_last},
      where);
}

bool is_empty(const Geometry& g) { return g.B * g.C * g.H * g.W * g.K == 0; }

bool is_winograd(const Geometry& g, const winograd::Problem& problem) {
  const Conv2dOptions& o = g.options;
  const std::array<std::int64_t, 2> ones = {1, 1};
  return g.R == 3 && g.S == 3 && o.groups == 1 && o.stride == ones && o.dilation == ones &&
         winograd::supports(problem) && winograd::is_fast(problem);
}

winograd::Problem winograd_problem(const Geometry& g) {
  return {g.B, g.C, g.H, g.W, g.K, g.P, g.Q, g.options.padding[0], g.options.padding[1]};
}

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

void forward(const Geometry& g, const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Tensor& y, Where where) {
  if (x.device().is_cuda()) {
    if (uses_vendor(Provided::conv2d, where) && vendor::convolution(g, x, weight, bias, y, where))
      return;
    return cuda::convolution(g, x, weight, bias, y, where);
  }
  if (x.dtype() == DType::float64)
    return cpu::direct::convolution(g, x.data<double>(), weight.data<double>(),
                                    data_or_null<double>(bias), y.data<double>());
  const float *image = x.data<float>(), *filter = weight.data<float>();
  const float* offset = data_or_null<float>(bias);
  if (is_empty(g)) return cpu::direct::convolution(g, image, filter, offset, y.data<float>());
  if (const auto problem = winograd_problem(g); is_winograd(g, problem))
    return winograd::forward(problem, image, filter, offset, y.data<float>(), where);
  cpu::onednn::convolution(g, image, filter, offset, y.data<float>(), where);
}

void backward_input(const Geometry& g, const Tensor& grad_y, const Tensor& weight,
                    const Tensor& grad_x, Where where) {
  if (grad_y.device().is_cuda()) {
    if (uses_vendor(Provided::conv2d, where) &&
        vendor::convolution_backward_input(g, grad_y, weight, grad_x, where))
      return;
    return cuda::convolution_backward_input(g, grad_y, weight, grad_x, where);
  }
  if (grad_y.dtype() == DType::float64)
    return cpu::direct::convolution_backward_input(g, grad_y.data<double>(), weight.data<double>(),
                                                   grad_x.data<double>());
  const float *gradient = grad_y.data<float>(), *filter = weight.data<float>();
  float* result = grad_x.data<float>();
  if (is_empty(g)) return cpu::direct::convolution_backward_input(g, gradient, filter, result);
  if (const auto problem = winograd_problem(g); is_winograd(g, problem))
    return winograd::backward_input(problem, gradient, filter, result, where);
  cpu::onednn::convolution_backward_input(g, gradient, filter, result, where);
}

void backward_weight(const Geometry& g, const Tensor& x, const Tensor& grad_y,
                     Conv2dWeightGradients& result, Where where) {
  if (x.device().is_cuda()) {
    if (result.bias.defined()) result.bias = sum(grad_y, {0, 2, 3}, false, where);
    if (uses_vendor(Provided::conv2d, where) &&
        vendor::convolution_backward_weight(g, x, grad_y, result.weight, where))
      return;
    return cuda::convolution_backward_weight(g, x, grad_y, result.weight, where);
  }
  if (x.dtype() == DType::float64)
    return cpu::direct::convolution_backward_weight(g, x.data<double>(), grad_y.data<double>(),
                                                    result.weight.data<double>(),
                                                    data_or_null<double>(result.bias));
  const float *image = x.data<float>(), *gradient = grad_y.data<float>();
  float *filter = result.weight.data<float>(), *offset = data_or_null<float>(result.bias);
  if (is_empty(g))
    return cpu::direct::convolution_backward_weight(g, image, gradient, filter, offset);
  if (const auto problem = winograd_problem(g); is_winograd(g, problem))
    return winograd::backward_weight(problem, image, gradient, filter, offset, where);
  cpu::onednn::convolution_backward_weight(g, image, gradient, filter, offset, where);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options, Where where) {
  check_agreement("conv2d", x, weight, where);
  const Geometry g = geometry_of("conv2d", x.shape(), weight.shape(), options, where);
  if (bias.defined()) {
    check_agreement("conv2d", x, bias, where);
    RINGRAD_CHECK(bias.shape() == Shape{g.K}, ShapeError, where, "conv2d: bias must have shape (",
                  g.K, ",); got ", bias.shape());
  }
  const Tensor y = empty_image({g.B, g.K, g.P, g.Q}, x, where);
  forward(g, as_image(x, where), as_filter(weight, where),
          bias.defined() ? contiguous(cast(bias, y.dtype(), where), where) : Tensor(), y, where);
  return cast(y, x.dtype(), where);
}

Tensor conv2d_backward_input(const Tensor& grad_output, const Tensor& weight,
                             const Shape& input_shape, const Conv2dOptions& options, Where where) {
  constexpr const char* kOperation = "conv2d_backward_input";
  check_agreement(kOperation, grad_output, weight, where);
  const Geometry g = geometry_of(kOperation, input_shape, weight.shape(), options, where);
  check_gradient(kOperation, grad_output, g, where);
  const Tensor grad_input = empty_image(input_shape, grad_output, where);
  backward_input(g, as_image(grad_output, where), as_filter(weight, where), grad_input, where);
  return cast(grad_input, grad_output.dtype(), where);
}

Conv2dWeightGradients conv2d_backward_weight(const Tensor& grad_output, const Tensor& x,
                                             const Shape& weight_shape, bool with_bias,
                                             const Conv2dOptions& options, Where where) {
  constexpr const char* kOperation = "conv2d_backward_weight";
  check_agreement(kOperation, grad_output, x, where);
  const Geometry g = geometry_of(kOperation, x.shape(), weight_shape, options, where);
  check_gradient(kOperation, grad_output, g, where);
  const Options like{.dtype = kernel_dtype(x), .device = x.device()};
  Conv2dWeightGradients result{empty(weight_shape, like, where),
                               with_bias ? empty({g.K}, like, where) : Tensor()};
  backward_weight(g, as_image(x, where), as_image(grad_output, where), result, where);
  result.weight = cast(result.weight, x.dtype(), where);
  if (with_bias) result.bias = cast(result.bias, x.dtype(), where);
  return result;
}

}  // namespace ringrad::kernels
