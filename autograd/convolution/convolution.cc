#include "ringrad/autograd/convolution/convolution.h"

#include <limits>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {
namespace {

using kernels::ConvolutionOptions;

// Names of recorded operations and in messages, by the number of axes.
struct Names {
  const char *forward, *input_gradient, *weight_gradient, *transpose;
  const char *transposed_input, *filter;  // shapes
};

const Names& names_of(const ConvolutionOptions& options) {
  static constexpr Names kNames[] = {
      {"conv1d", "conv1d_input_gradient", "conv1d_weight_gradient", "conv_transpose1d", "(B, K, T)",
       "(K, C / groups, S)"},
      {"conv2d", "conv2d_input_gradient", "conv2d_weight_gradient", "conv_transpose2d",
       "(B, K, P, Q)", "(K, C / groups, R, S)"},
      {"conv3d", "conv3d_input_gradient", "conv3d_weight_gradient", "conv_transpose3d",
       "(B, K, Z, P, Q)", "(K, C / groups, U, R, S)"}};
  return kNames[options.rank - 1];
}

// The sum over everything but the channels: the gradient of a bias.
Tensor sum_per_channel(const Tensor& grad, Where where) {
  Shape axes{0};
  for (int axis = 2; axis < grad.dims(); ++axis) axes.push_back(axis);
  return sum(grad, axes, false, where);
}

// -- Convolution ----------------------------------------------------------------------------------

// Convolution is linear in the image and in the filter, so its gradients are two more products of
// the same kind, and the gradients of those lead back. With the pairing <., .> over all elements,
//
//     <g, conv(x, w)> = <input_gradient(g, w), x> = <weight_gradient(g, x), w>
//
// holds for any three tensors. So the derivative of each of the three operators consists of the
// other two.

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const ConvolutionOptions& options, Where where);
Tensor input_gradient(const Tensor& grad, const Tensor& weight, const Shape& input_shape,
                      const ConvolutionOptions& options, Where where);

Tensor weight_gradient(const Tensor& grad, const Tensor& x, const Shape& weight_shape,
                       const ConvolutionOptions& options, Where where) {
  Tensor y =
      kernels::convolution_backward_weight(grad, x, weight_shape, false, options, where).weight;
  if (needs_grad(grad, x))
    record(names_of(options).weight_gradient, where, y, {&grad, &x},
           [grad = save_if(x.requires_grad(), grad), x = save_if(grad.requires_grad(), x),
            shape = x.shape(), options, where](BackwardContext& context) {
             const Tensor& w = context.grad_output();
             if (context.needs(0)) context.set(0, convolve(x.get(), w, {}, options, where));
             if (context.needs(1))
               context.set(1, input_gradient(grad.get(), w, shape, options, where));
           });
  return y;
}

Tensor input_gradient(const Tensor& grad, const Tensor& weight, const Shape& input_shape,
                      const ConvolutionOptions& options, Where where) {
  Tensor y = kernels::convolution_backward_input(grad, weight, input_shape, options, where);
  if (needs_grad(grad, weight))
    record(names_of(options).input_gradient, where, y, {&grad, &weight},
           [grad = save_if(weight.requires_grad(), grad),
            weight = save_if(grad.requires_grad(), weight), shape = weight.shape(), options,
            where](BackwardContext& context) {
             const Tensor& x = context.grad_output();
             if (context.needs(0)) context.set(0, convolve(x, weight.get(), {}, options, where));
             if (context.needs(1))
               context.set(1, weight_gradient(grad.get(), x, shape, options, where));
           });
  return y;
}

Tensor convolve(const Tensor& x, const Tensor& weight, const Tensor& bias,
                const ConvolutionOptions& options, Where where) {
  if (autocasting())
    return with_narrowed(
        where, [&](auto&... narrow) { return convolve(narrow..., options, where); }, x, weight,
        bias);
  Tensor y = kernels::convolution(x, weight, bias, options, where);
  if (needs_grad(x, weight, bias))
    record(names_of(options).forward, where, y, {&x, &weight, &bias},
           [x = save_if(weight.requires_grad(), x), weight = save_if(x.requires_grad(), weight),
            x_shape = x.shape(), weight_shape = weight.shape(), options,
            where](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             if (context.needs(0))
               context.set(0, input_gradient(grad, weight.get(), x_shape, options, where));
             if (grad_enabled() || !context.needs(1)) {
               if (context.needs(1))
                 context.set(1, weight_gradient(grad, x.get(), weight_shape, options, where));
               if (context.needs(2)) context.set(2, sum_per_channel(grad, where));
             } else {
               auto gradients = kernels::convolution_backward_weight(
                   grad, x.get(), weight_shape, context.needs(2), options, where);
               context.set(1, std::move(gradients.weight));
               context.set(2, std::move(gradients.bias));
             }
           });
  return y;
}

// -- Its transpose --------------------------------------------------------------------------------

/// A transposed convolution: the convolution whose input gradient it is, and what that leaves open.
struct Transposed {
  template <std::size_t N>
  Transposed(const ConvTransposeOptions<N>& o)
      : convolution(ConvOptions<N>{o.stride, o.padding, o.dilation, o.groups}),
        output_padding(ConvolutionOptions::as_volume(o.output_padding, 0)) {}

  ConvolutionOptions convolution;
  std::array<std::int64_t, 3> output_padding;  // along (D, H, W)
};

// The shape of the images of which convolution gives images of x's shape.
Shape transposed_shape(const Tensor& x, const Tensor& weight, const Transposed& options,
                       Where where) {
  const ConvolutionOptions& o = options.convolution;
  const Names& names = names_of(o);
  RINGRAD_CHECK(x.dims(where) == o.rank + 2 && weight.dims(where) == o.rank + 2 &&
                    x.shape()[1] == weight.shape()[0],
                ShapeError, where, names.transpose, ": input must be ", names.transposed_input,
                " and weight ", names.filter, "; got ", x.shape(), " and ", weight.shape(where));
  RINGRAD_CHECK(o.groups > 0, ValueError, where, names.transpose, ": groups must be positive; got ",
                o.groups);
  RINGRAD_CHECK(x.shape()[1] % o.groups == 0, ShapeError, where, names.transpose,
                ": K must be a multiple of groups; got input ", x.shape(), " and groups ",
                o.groups);
  check_same_dtype(names.transpose, x, weight, where);
  check_same_device(names.transpose, x, weight, where);
  Shape shape{x.shape()[0], weight.shape()[1] * o.groups};
  for (int axis = 2; axis < o.rank + 2; ++axis) {
    const auto i = static_cast<unsigned>(axis + 1 - o.rank);  // of (D, H, W)
    const std::int64_t stride = o.stride[i], padding = o.padding[i],
                       added = options.output_padding[i], dilation = o.dilation[i];
    constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();  // products fit
    RINGRAD_CHECK(stride > 0 && stride <= kMax && dilation > 0 && dilation <= kMax &&
                      padding >= 0 && padding <= kMax && added >= 0 && added < stride,
                  ValueError, where, names.transpose,
                  ": stride and dilation must be positive, padding not negative, "
                  "output_padding not negative and less than the stride; got stride ",
                  stride, ", dilation ", dilation, ", padding ", padding, ", output_padding ",
                  added);
    const std::int64_t extent = (x.shape()[axis] - 1) * stride - 2 * padding +
                                dilation * (weight.shape()[axis] - 1) + added + 1;
    RINGRAD_CHECK(x.shape()[axis] > 0 && extent > 0, ShapeError, where, names.transpose,
                  ": input and result must have pixels; got input ", x.shape(), " and weight ",
                  weight.shape(), " for an extent of ", extent);
    shape.push_back(extent);
  }
  return shape;
}

// By the pairing above: <g, input_gradient(x, w)> = <conv(g, w), x> = <weight_gradient(x, g), w>.
Tensor convolve_transposed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Transposed& options, Where where) {
  if (autocasting())
    return with_narrowed(
        where, [&](auto&... narrow) { return convolve_transposed(narrow..., options, where); }, x,
        weight, bias);
  const ConvolutionOptions& o = options.convolution;
  const Names& names = names_of(o);
  const Shape shape = transposed_shape(x, weight, options, where);
  if (bias.defined()) {
    check_same_dtype(names.transpose, x, bias, where);
    check_same_device(names.transpose, x, bias, where);
    RINGRAD_CHECK(bias.shape() == Shape{shape[1]}, ShapeError, where, names.transpose,
                  ": bias must have shape (", shape[1], ",); got ", bias.shape());
  }
  // On a CPU, which computes in float32, 16-bit results are rounded once, after the bias.
  const bool is_wide = bias.defined() && !x.device().is_cuda();
  const DType dtype = is_wide ? math_dtype(x.dtype()) : x.dtype();
  Tensor y = kernels::convolution_backward_input(
      kernels::cast(x, dtype, where), kernels::cast(weight, dtype, where), shape, o, where);
  if (bias.defined()) {
    Shape broadcast = Shape::filled(o.rank + 1, 1);
    broadcast[0] = shape[1];
    kernels::add_(y, view::reshape(kernels::cast(bias, dtype, where), broadcast, where), 1, where);
    y = kernels::cast(y, x.dtype(), where);
  }
  if (needs_grad(x, weight, bias))
    record(names.transpose, where, y, {&x, &weight, &bias},
           [x = save_if(weight.requires_grad(), x), weight = save_if(x.requires_grad(), weight),
            weight_shape = weight.shape(), o, where](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             if (context.needs(0)) context.set(0, convolve(grad, weight.get(), {}, o, where));
             if (context.needs(1))
               context.set(1, weight_gradient(x.get(), grad, weight_shape, o, where));
             if (context.needs(2)) context.set(2, sum_per_channel(grad, where));
           });
  return y;
}

}  // namespace

#define RINGRAD_CONVOLUTION(name, Options, convolve)                                             \
  Tensor name(const Tensor& x, const Tensor& weight, const Tensor& bias, const Options& options, \
              Where where) {                                                                     \
    return convolve(x, weight, bias, options, where);                                            \
  }
RINGRAD_CONVOLUTION(conv1d, Conv1dOptions, convolve)
RINGRAD_CONVOLUTION(conv2d, Conv2dOptions, convolve)
RINGRAD_CONVOLUTION(conv3d, Conv3dOptions, convolve)
RINGRAD_CONVOLUTION(conv_transpose1d, ConvTranspose1dOptions, convolve_transposed)
RINGRAD_CONVOLUTION(conv_transpose2d, ConvTranspose2dOptions, convolve_transposed)
RINGRAD_CONVOLUTION(conv_transpose3d, ConvTranspose3dOptions, convolve_transposed)
#undef RINGRAD_CONVOLUTION

}  // namespace ringrad
