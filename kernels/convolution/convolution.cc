#include "ringrad/kernels/convolution/convolution.h"

#include <algorithm>
#include <array>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/convolution/convolution_kernels.h"
#include "ringrad/kernels/convolution/winograd.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/library/backend.h"
#include "ringrad/kernels/library/has_onednn.h"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad::kernels {
namespace {

using Geometry = ConvolutionGeometry;
using Product = ConvolutionProduct;

void check_options(const char* operation, const ConvolutionOptions& options, Where where) {
  // Products of these with an extent must fit into 64 bits.
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  for (unsigned i = 0; i < 3; ++i)
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

/// The extents of (D, H, W) in a shape (B, C, ...), or of (U, R, S) in a filter's: 1 for axes that
/// it lacks.
std::array<std::int64_t, 3> extents_of(const Shape& shape) {
  std::array<std::int64_t, 3> extents = {1, 1, 1};
  std::copy(shape.begin() + 2, shape.end(), extents.end() - (shape.size() - 2));
  return extents;
}

/// The geometry of x and weight, as their shapes give it.
Geometry geometry_of(Product product, const Shape& x, const Shape& weight,
                     const ConvolutionOptions& options, Where where) {
  constexpr const char *kInputs[] = {"(B, C, L)", "(B, C, H, W)", "(B, C, D, H, W)"},
                       *kFilters[] = {"(K, C / groups, S)", "(K, C / groups, R, S)",
                                      "(K, C / groups, U, R, S)"};
  const char* operation = name_of(product, options.rank);
  const char* filter = kFilters[options.rank - 1];
  check_options(operation, options, where);
  RINGRAD_CHECK(x.size() == options.rank + 2 && weight.size() == options.rank + 2, ShapeError,
                where, operation, ": input must be ", kInputs[options.rank - 1], " and weight ",
                filter, "; got ", x, " and ", weight);
  const std::int64_t C = x[1], K = weight[0], groups = options.groups;
  RINGRAD_CHECK(C % groups == 0 && K % groups == 0 && C / groups == weight[1], ShapeError, where,
                operation, ": weight must be ", filter, ", K a multiple of groups; got input ", x,
                ", weight ", weight, " and groups ", groups);
  const auto in = extents_of(x), taps = extents_of(weight);
  RINGRAD_CHECK(taps[0] * taps[1] * taps[2] > 0, ShapeError, where, operation,
                ": the filter must have taps; got weight ", weight);
  std::array<std::int64_t, 3> out;
  for (unsigned axis = 0; axis < 3; ++axis) {
    const std::int64_t padded = in[axis] + 2 * options.padding[axis];
    const std::int64_t span = options.dilation[axis] * (taps[axis] - 1) + 1;
    RINGRAD_CHECK(padded >= span, ShapeError, where, operation,
                  ": the filter must fit into the padded input; got an extent of ", padded,
                  " for a filter spanning ", span);
    out[axis] = (padded - span) / options.stride[axis] + 1;
  }
  return {.B = x[0],
          .C = C,
          .D = in[0],
          .H = in[1],
          .W = in[2],
          .K = K,
          .Z = out[0],
          .P = out[1],
          .Q = out[2],
          .U = taps[0],
          .R = taps[1],
          .S = taps[2],
          .options = options};
}

Shape output_shape(const Geometry& g) {
  switch (g.options.rank) {
    case 1:
      return {g.B, g.K, g.Q};
    case 2:
      return {g.B, g.K, g.P, g.Q};
    default:
      return {g.B, g.K, g.Z, g.P, g.Q};
  }
}

void check_gradient(const char* operation, const Tensor& grad_output, const Geometry& g,
                    Where where) {
  RINGRAD_CHECK(grad_output.shape() == output_shape(g), ShapeError, where, operation,
                ": the gradient must have the output's shape ", output_shape(g), "; got ",
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

// Kernels take four axes. The planes of a volume follow each other in memory as the rows of an
// image do, so a volume is an image of D * H rows; a sequence is one of one row. Filters likewise.
Shape image_shape(const Shape& shape) {
  const auto [depth, height, width] = extents_of(shape);
  return {shape[0], shape[1], depth * height, width};
}

/// x with the axes of image_shape(): a view, unless x's planes lie apart.
Tensor with_four_axes(const Tensor& x, Where where) {
  if (x.dims() == 4) return x;
  const Shape shape = image_shape(x.shape());
  const bool is_view = view::reshaped_strides(x, shape).has_value();
  return view::reshape(is_view ? x : contiguous(x, where), shape, where);
}

Tensor as_image(const Tensor& x, Where where) {
  return to_layout(with_four_axes(cast(x, kernel_dtype(x), where), where), Layout::channels_last,
                   where);
}

/// On a GPU filters keep their order, since each GPU kernel needs a different one.
Tensor as_filter(const Tensor& x, Where where) {
  const Tensor filter = with_four_axes(x, where);
  return x.device().is_cuda() ? filter : contiguous(cast(filter, kernel_dtype(x), where), where);
}

Tensor empty_image(const Shape& shape, const Tensor& like, Where where) {
  return empty(
      image_shape(shape),
      {.dtype = kernel_dtype(like), .device = like.device(), .layout = Layout::channels_last},
      where);
}

/// A kernel's result with the operator's dtype and shape.
Tensor from_image(const Tensor& image, const Shape& shape, DType dtype, Where where) {
  const Tensor result = cast(image, dtype, where);
  return shape.size() == 4 ? result : view::reshape(result, shape, where);
}

bool is_empty(const Geometry& g) { return g.B * g.C * g.pixels_of_x() * g.K == 0; }

// Some outputs may see padding alone. There oneDNN's code for AVX-512 reads beyond its memory, in
// all versions before September 2026 (its issue 5942).
bool is_padded_by_a_filter(const Geometry& g) {
  const std::array<std::int64_t, 3> taps = {g.U, g.R, g.S};
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (g.options.padding[axis] > g.options.dilation[axis] * (taps[axis] - 1)) return true;
  return false;
}

bool is_winograd(const Geometry& g, const winograd::Problem& problem) {
  const ConvolutionOptions& o = g.options;
  const std::array<std::int64_t, 3> ones = {1, 1, 1};
  return g.is_flat() && g.R == 3 && g.S == 3 && o.groups == 1 && o.stride == ones &&
         o.dilation == ones && winograd::supports(problem) && winograd::is_fast(problem);
}

winograd::Problem winograd_problem(const Geometry& g) {
  return {g.B, g.C, g.H, g.W, g.K, g.P, g.Q, g.options.padding[1], g.options.padding[2]};
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
  if (is_empty(g) || is_padded_by_a_filter(g))
    return cpu::direct::convolution(g, image, filter, offset, y.data<float>());
  if (const auto problem = winograd_problem(g); is_winograd(g, problem))
    return winograd::forward(problem, image, filter, offset, y.data<float>(), where);
  if constexpr (kHasOneDnn)
    return cpu::onednn::convolution(g, image, filter, offset, y.data<float>(), where);
  cpu::direct::convolution(g, image, filter, offset, y.data<float>());
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
  if constexpr (kHasOneDnn)
    return cpu::onednn::convolution_backward_input(g, gradient, filter, result, where);
  cpu::direct::convolution_backward_input(g, gradient, filter, result);
}

void backward_weight(const Geometry& g, const Tensor& x, const Tensor& grad_y, const Tensor& result,
                     Where where) {
  if (x.device().is_cuda()) {
    if (uses_vendor(Provided::conv2d, where) &&
        vendor::convolution_backward_weight(g, x, grad_y, result, where))
      return;
    return cuda::convolution_backward_weight(g, x, grad_y, result, where);
  }
  if (x.dtype() == DType::float64)
    return cpu::direct::convolution_backward_weight(g, x.data<double>(), grad_y.data<double>(),
                                                    result.data<double>());
  const float *image = x.data<float>(), *gradient = grad_y.data<float>();
  float* filter = result.data<float>();
  if (is_empty(g)) return cpu::direct::convolution_backward_weight(g, image, gradient, filter);
  if (const auto problem = winograd_problem(g); is_winograd(g, problem))
    return winograd::backward_weight(problem, image, gradient, filter, where);
  if (cpu::depthwise::supports(g))
    return cpu::depthwise::convolution_backward_weight(g, image, gradient, filter);
  if constexpr (kHasOneDnn)
    return cpu::onednn::convolution_backward_weight(g, image, gradient, filter, where);
  cpu::direct::convolution_backward_weight(g, image, gradient, filter);
}

}  // namespace

Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const ConvolutionOptions& options, Where where) {
  const char* operation = name_of(Product::forward, options.rank);
  check_agreement(operation, x, weight, where);
  const Geometry g = geometry_of(Product::forward, x.shape(), weight.shape(), options, where);
  if (bias.defined()) {
    check_agreement(operation, x, bias, where);
    RINGRAD_CHECK(bias.shape() == Shape{g.K}, ShapeError, where, operation,
                  ": bias must have shape (", g.K, ",); got ", bias.shape());
  }
  const Tensor y = empty_image(output_shape(g), x, where);
  forward(g, as_image(x, where), as_filter(weight, where),
          bias.defined() ? contiguous(cast(bias, y.dtype(), where), where) : Tensor(), y, where);
  return from_image(y, output_shape(g), x.dtype(), where);
}

Tensor convolution_backward_input(const Tensor& grad_output, const Tensor& weight,
                                  const Shape& input_shape, const ConvolutionOptions& options,
                                  Where where) {
  const char* operation = name_of(Product::backward_input, options.rank);
  check_agreement(operation, grad_output, weight, where);
  const Geometry g =
      geometry_of(Product::backward_input, input_shape, weight.shape(), options, where);
  check_gradient(operation, grad_output, g, where);
  const Tensor grad_input = empty_image(input_shape, grad_output, where);
  backward_input(g, as_image(grad_output, where), as_filter(weight, where), grad_input, where);
  return from_image(grad_input, input_shape, grad_output.dtype(), where);
}

ConvolutionWeightGradients convolution_backward_weight(const Tensor& grad_output, const Tensor& x,
                                                       const Shape& weight_shape, bool with_bias,
                                                       const ConvolutionOptions& options,
                                                       Where where) {
  const char* operation = name_of(Product::backward_weight, options.rank);
  check_agreement(operation, grad_output, x, where);
  const Geometry g = geometry_of(Product::backward_weight, x.shape(), weight_shape, options, where);
  check_gradient(operation, grad_output, g, where);
  const Options like{.dtype = kernel_dtype(x), .device = x.device()};
  const Tensor weight = empty(image_shape(weight_shape), like, where);
  const Tensor grad_y = as_image(grad_output, where);
  backward_weight(g, as_image(x, where), grad_y, weight, where);
  ConvolutionWeightGradients result{from_image(weight, weight_shape, x.dtype(), where), {}};
  // A pass of its own, whose partial sums are in float64: those of oneDNN are one float32 chain.
  if (with_bias) result.bias = cast(sum(grad_y, {0, 2, 3}, false, where), x.dtype(), where);
  return result;
}

}  // namespace ringrad::kernels
