#include "ringrad/autograd/convolution/convolution.h"

#include "ringrad/autograd/autocast.h"
#include "ringrad/autograd/function.h"
#include "ringrad/autograd/reduce.h"

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

}  // namespace ringrad
