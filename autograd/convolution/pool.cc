#include "ringrad/autograd/convolution/pool.h"

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"

namespace ringrad {
namespace {

// Once the winners are known, max pooling is linear: a gather, whose adjoint is a scatter. Means
// are always linear. So each operator's gradient is its adjoint, and the adjoint's gradient is the
// operator itself.

Tensor scatter_to_winners(const Tensor& grad, const Tensor& places, const Shape& input_shape,
                          const Pool2dOptions& options, Where where);

Tensor gather_winners(const Tensor& x, const Tensor& places, const Pool2dOptions& options,
                      Where where) {
  Tensor y = kernels::max_pool2d_gather(x, places, options, where);
  if (needs_grad(x))
    record("max_pool2d_gather", where, y, {&x},
           [places, shape = x.shape(), options, where](BackwardContext& context) {
             context.set(0,
                         scatter_to_winners(context.grad_output(), places, shape, options, where));
           });
  return y;
}

Tensor scatter_to_winners(const Tensor& grad, const Tensor& places, const Shape& input_shape,
                          const Pool2dOptions& options, Where where) {
  Tensor y = kernels::max_pool2d_backward(grad, places, input_shape, options, where);
  if (needs_grad(grad))
    record("max_pool2d_scatter", where, y, {&grad},
           [places, options, where](BackwardContext& context) {
             context.set(0, gather_winners(context.grad_output(), places, options, where));
           });
  return y;
}

Tensor spread_means(const Tensor& grad, const Shape& input_shape, const Pool2dOptions& options,
                    Where where) {
  Tensor y = kernels::avg_pool2d_backward(grad, input_shape, options, where);
  if (needs_grad(grad))
    record("avg_pool2d_spread", where, y, {&grad}, [options, where](BackwardContext& context) {
      context.set(0, avg_pool2d(context.grad_output(), options, where));
    });
  return y;
}

Tensor spread_adaptive_means(const Tensor& grad, const Shape& input_shape, Where where) {
  Tensor y = kernels::adaptive_avg_pool2d_backward(grad, input_shape, where);
  const std::array<std::int64_t, 2> size{grad.shape()[2], grad.shape()[3]};
  if (needs_grad(grad))
    record("adaptive_avg_pool2d_spread", where, y, {&grad},
           [size, where](BackwardContext& context) {
             context.set(0, adaptive_avg_pool2d(context.grad_output(), size, where));
           });
  return y;
}

// pool(x) for a sequence as an image of one row.
Tensor pool_row(const char* operation, Tensor (*pool)(const Tensor&, const Pool2dOptions&, Where),
                const Tensor& x, const Pool1dOptions& options, Where where) {
  RINGRAD_CHECK(x.dims(where) == 3, ShapeError, where, operation, ": input must be (B, C, L); got ",
                x.shape());
  const Tensor y = pool(unsqueeze(x, 2, where),
                        {.kernel = {1, options.kernel},
                         .stride = {1, options.stride},
                         .padding = {0, options.padding},
                         .count_include_pad = options.count_include_pad},
                        where);
  return squeeze(y, {2}, where);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  auto [y, places] = kernels::max_pool2d(x, options, where);
  if (needs_grad(x))
    record("max_pool2d", where, y, {&x},
           [places = places, shape = x.shape(), options, where](BackwardContext& context) {
             context.set(0,
                         scatter_to_winners(context.grad_output(), places, shape, options, where));
           });
  return y;
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  Tensor y = kernels::avg_pool2d(x, options, where);
  if (needs_grad(x))
    record("avg_pool2d", where, y, {&x},
           [shape = x.shape(), options, where](BackwardContext& context) {
             context.set(0, spread_means(context.grad_output(), shape, options, where));
           });
  return y;
}

Tensor max_pool1d(const Tensor& x, const Pool1dOptions& options, Where where) {
  return pool_row("max_pool1d", max_pool2d, x, options, where);
}

Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& options, Where where) {
  return pool_row("avg_pool1d", avg_pool2d, x, options, where);
}

Tensor adaptive_avg_pool2d(const Tensor& x, std::array<std::int64_t, 2> output_size, Where where) {
  Tensor y = kernels::adaptive_avg_pool2d(x, output_size, where);
  if (needs_grad(x))
    record("adaptive_avg_pool2d", where, y, {&x},
           [shape = x.shape(), where](BackwardContext& context) {
             context.set(0, spread_adaptive_means(context.grad_output(), shape, where));
           });
  return y;
}

}  // namespace ringrad
