#include "ringrad/autograd/convolution/convolution.h"

#include <limits>

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/autograd/reduce.h"
#include "ringrad/core/view.h"
#include "ringrad/kernels/elementwise/elementwise.h"

namespace ringrad {
namespace {

// Convolution is linear in the image and in the filter, so its gradients are two more products of
// the same kind, and the gradients of those lead back. With the pairing <., .> over all elements,
//
//     <g, conv(x, w)> = <input_gradient(g, w), x> = <weight_gradient(g, x), w>
//
// holds for any three tensors. So the derivative of each of the three operators consists of the
// other two.

Tensor input_gradient(const Tensor& grad, const Tensor& weight, const Shape& input_shape,
                      const Conv2dOptions& options, Where where);

Tensor weight_gradient(const Tensor& grad, const Tensor& x, const Shape& weight_shape,
                       const Conv2dOptions& options, Where where) {
  Tensor y = kernels::conv2d_backward_weight(grad, x, weight_shape, false, options, where).weight;
  if (needs_grad(grad, x))
    record("conv2d_weight_gradient", where, y, {&grad, &x},
           [grad = save_if(x.requires_grad(), grad), x = save_if(grad.requires_grad(), x),
            shape = x.shape(), options, where](BackwardContext& context) {
             const Tensor& w = context.grad_output();
             if (context.needs(0)) context.set(0, conv2d(x.get(), w, {}, options, where));
             if (context.needs(1))
               context.set(1, input_gradient(grad.get(), w, shape, options, where));
           });
  return y;
}

Tensor input_gradient(const Tensor& grad, const Tensor& weight, const Shape& input_shape,
                      const Conv2dOptions& options, Where where) {
  Tensor y = kernels::conv2d_backward_input(grad, weight, input_shape, options, where);
  if (needs_grad(grad, weight))
    record("conv2d_input_gradient", where, y, {&grad, &weight},
           [grad = save_if(weight.requires_grad(), grad),
            weight = save_if(grad.requires_grad(), weight), shape = weight.shape(), options,
            where](BackwardContext& context) {
             const Tensor& x = context.grad_output();
             if (context.needs(0)) context.set(0, conv2d(x, weight.get(), {}, options, where));
             if (context.needs(1))
               context.set(1, weight_gradient(grad.get(), x, shape, options, where));
           });
  return y;
}

// A sequence as an image of one row.
Tensor row_of(const char* operation, const Tensor& x, Where where) {
  RINGRAD_CHECK(x.dims(where) == 3, ShapeError, where, operation,
                ": input and weight must have three axes; got ", x.shape());
  return unsqueeze(x, 2, where);
}

// The shape of the images of which convolution gives images of x's shape.
Shape transposed_shape(const Tensor& x, const Tensor& weight, const ConvTranspose2dOptions& options,
                       Where where) {
  RINGRAD_CHECK(
      x.dims(where) == 4 && weight.dims(where) == 4 && x.shape()[1] == weight.shape()[0],
      ShapeError, where,
      "conv_transpose2d: input must be (B, K, P, Q) and weight (K, C / groups, R, S); got ",
      x.shape(), " and ", weight.shape(where));
  RINGRAD_CHECK(options.groups > 0, ValueError, where,
                "conv_transpose2d: groups must be positive; got ", options.groups);
  RINGRAD_CHECK(x.shape()[1] % options.groups == 0, ShapeError, where,
                "conv_transpose2d: K must be a multiple of groups; got input ", x.shape(),
                " and groups ", options.groups);
  check_same_dtype("conv_transpose2d", x, weight, where);
  check_same_device("conv_transpose2d", x, weight, where);
  Shape shape{x.shape()[0], weight.shape()[1] * options.groups};
  for (unsigned i = 0; i < 2; ++i) {
    const std::int64_t stride = options.stride[i], padding = options.padding[i],
                       added = options.output_padding[i], dilation = options.dilation[i];
    constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();  // products fit
    RINGRAD_CHECK(stride > 0 && stride <= kMax && dilation > 0 && dilation <= kMax &&
                      padding >= 0 && padding <= kMax && added >= 0 && added < stride,
                  ValueError, where,
                  "conv_transpose2d: stride and dilation must be positive, padding not negative, "
                  "output_padding not negative and less than the stride; got stride ",
                  stride, ", dilation ", dilation, ", padding ", padding, ", output_padding ",
                  added);
    const int axis = static_cast<int>(i) + 2;
    const std::int64_t extent = (x.shape()[axis] - 1) * stride - 2 * padding +
                                dilation * (weight.shape()[axis] - 1) + added + 1;
    RINGRAD_CHECK(x.shape()[axis] > 0 && extent > 0, ShapeError, where,
                  "conv_transpose2d: input and result must have pixels; got input ", x.shape(),
                  " and weight ", weight.shape(), " for an extent of ", extent);
    shape.push_back(extent);
  }
  return shape;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options, Where where) {
  if (autocasting()) {
    const Tensor in = narrowed(x, where), w = narrowed(weight, where), b = narrowed(bias, where);
    const Autocast off(DType::float32);
    return conv2d(in, w, b, options, where);
  }
  Tensor y = kernels::conv2d(x, weight, bias, options, where);
  if (needs_grad(x, weight, bias))
    record("conv2d", where, y, {&x, &weight, &bias},
           [x = save_if(weight.requires_grad(), x), weight = save_if(x.requires_grad(), weight),
            x_shape = x.shape(), weight_shape = weight.shape(), options,
            where](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             if (context.needs(0))
               context.set(0, input_gradient(grad, weight.get(), x_shape, options, where));
             if (grad_enabled() || !context.needs(1)) {
               if (context.needs(1))
                 context.set(1, weight_gradient(grad, x.get(), weight_shape, options, where));
               if (context.needs(2)) context.set(2, sum(grad, {0, 2, 3}));
             } else {
               auto gradients = kernels::conv2d_backward_weight(grad, x.get(), weight_shape,
                                                                context.needs(2), options, where);
               context.set(1, std::move(gradients.weight));
               context.set(2, std::move(gradients.bias));
             }
           });
  return y;
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options, Where where) {
  const Tensor image = row_of("conv1d", x, where), filter = row_of("conv1d", weight, where);
  const Tensor y = conv2d(image, filter, bias,
                          {.stride = {1, options.stride},
                           .padding = {0, options.padding},
                           .dilation = {1, options.dilation},
                           .groups = options.groups},
                          where);
  return squeeze(y, {2}, where);
}

// By the pairing above: <g, input_gradient(x, w)> = <conv(g, w), x> = <weight_gradient(x, g), w>.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options, Where where) {
  if (autocasting()) {
    const Tensor in = narrowed(x, where), w = narrowed(weight, where), b = narrowed(bias, where);
    const Autocast off(DType::float32);
    return conv_transpose2d(in, w, b, options, where);
  }
  const Shape shape = transposed_shape(x, weight, options, where);
  const Conv2dOptions transposed{.stride = options.stride,
                                 .padding = options.padding,
                                 .dilation = options.dilation,
                                 .groups = options.groups};
  Tensor y = kernels::conv2d_backward_input(x, weight, shape, transposed, where);
  if (bias.defined()) {
    RINGRAD_CHECK(bias.shape() == Shape{shape[1]}, ShapeError, where,
                  "conv_transpose2d: bias must have shape (", shape[1], ",); got ", bias.shape());
    kernels::add_(y, view::reshape(bias, {shape[1], 1, 1}, where), 1, where);
  }
  if (needs_grad(x, weight, bias))
    record("conv_transpose2d", where, y, {&x, &weight, &bias},
           [x = save_if(weight.requires_grad(), x), weight = save_if(x.requires_grad(), weight),
            weight_shape = weight.shape(), transposed, where](BackwardContext& context) {
             const Tensor& grad = context.grad_output();
             if (context.needs(0))
               context.set(0, conv2d(grad, weight.get(), {}, transposed, where));
             if (context.needs(1))
               context.set(1, weight_gradient(x.get(), grad, weight_shape, transposed, where));
             if (context.needs(2)) context.set(2, sum(grad, {0, 2, 3}));
           });
  return y;
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options, Where where) {
  const Tensor image = row_of("conv_transpose1d", x, where);
  const Tensor filter = row_of("conv_transpose1d", weight, where);
  const Tensor y = conv_transpose2d(image, filter, bias,
                                    {.stride = {1, options.stride},
                                     .padding = {0, options.padding},
                                     .output_padding = {0, options.output_padding},
                                     .dilation = {1, options.dilation},
                                     .groups = options.groups},
                                    where);
  return squeeze(y, {2}, where);
}

}  // namespace ringrad
