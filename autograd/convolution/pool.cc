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
  return record_linear("max_pool2d_gather", where,
                       kernels::max_pool2d_gather(x, places, options, where), x,
                       [=, shape = x.shape()](const Tensor& grad) {
                         return scatter_to_winners(grad, places, shape, options, where);
                       });
}

Tensor scatter_to_winners(const Tensor& grad, const Tensor& places, const Shape& input_shape,
                          const Pool2dOptions& options, Where where) {
  return record_linear("max_pool2d_scatter", where,
                       kernels::max_pool2d_backward(grad, places, input_shape, options, where),
                       grad, [=](const Tensor& grad_output) {
                         return gather_winners(grad_output, places, options, where);
                       });
}

Tensor spread_means(const Tensor& grad, const Shape& input_shape, const Pool2dOptions& options,
                    Where where) {
  return record_linear(
      "avg_pool2d_spread", where, kernels::avg_pool2d_backward(grad, input_shape, options, where),
      grad, [=](const Tensor& grad_output) { return avg_pool2d(grad_output, options, where); });
}

Tensor spread_adaptive_means(const Tensor& grad, const Shape& input_shape, Where where) {
  Tensor y = kernels::adaptive_avg_pool2d_backward(grad, input_shape, where);
  const PerAxis<2> size{grad.shape()[2], grad.shape()[3]};
  return record_linear(
      "adaptive_avg_pool2d_spread", where, std::move(y), grad,
      [=](const Tensor& grad_output) { return adaptive_avg_pool2d(grad_output, size, where); });
}

using Pool2d = Tensor (*)(const Tensor& x, const Pool2dOptions& options, Where where);

// pool(x) for a sequence as an image of one row.
Tensor pool_row(const char* operation, Pool2d pool, const Tensor& x, const Pool1dOptions& options,
                Where where) {
  RINGRAD_CHECK(x.dims(where) == 3, ShapeError, where, operation, ": input must be (B, C, L); got ",
                x.shape());
  const Tensor y = pool(unsqueeze(x, 2, where),
                        {.kernel = {1, options.kernel[0]},
                         .stride = {1, options.stride[0]},
                         .padding = {0, options.padding[0]},
                         .count_include_pad = options.count_include_pad},
                        where);
  return squeeze(y, {2}, where);
}

void check_volume(const char* operation, const Tensor& x, const Pool3dOptions& options,
                  Where where) {
  check_floating(operation, x, where);
  RINGRAD_CHECK(x.dims() == 5, ShapeError, where, operation,
                ": input must be (B, C, D, H, W); got ", x.shape());
  for (int axis = 2; axis < 5; ++axis) {
    const auto i = static_cast<unsigned>(axis - 2);
    RINGRAD_CHECK(x.shape()[axis] > 0, ShapeError, where, operation,
                  ": a volume must have pixels; got shape ", x.shape());
    kernels::check_pool_windows(operation, x.shape()[axis], options.kernel[i], options.stride[i],
                                options.padding[i], where);
  }
}

// A window of a volume is a window of planes times a window of pixels. So pooling first the pixels
// and then the planes gives the largest values, the first of equals among them, and the means.
//
// The memory of x is (outer, D, H, W, inner): outer = B * C, or inner = C if the channels are last.
// Both steps see `inner` as the channels of images, and the second step the pixels as well:
//
//     (outer * D) images of H x W pixels with `inner` channels
//     outer       images of D x 1 pixels with P * Q * inner channels
Tensor pool_volume(Pool2d pool, const Tensor& x, const Pool3dOptions& o, Where where) {
  const Shape& shape = x.shape();
  const std::int64_t B = shape[0], C = shape[1], D = shape[2];
  const bool last = x.strides()[1] == 1 && !x.is_contiguous();
  const std::int64_t outer = last ? B : B * C, inner = last ? C : 1;
  const Tensor memory = last ? permute(x, {0, 2, 3, 4, 1}, where) : x;
  const Tensor planes =
      permute(reshape(memory, {outer * D, shape[3], shape[4], inner}, where), {0, 3, 1, 2}, where);
  const Tensor pixels = pool(planes,
                             {.kernel = {o.kernel[1], o.kernel[2]},
                              .stride = {o.stride[1], o.stride[2]},
                              .padding = {o.padding[1], o.padding[2]},
                              .count_include_pad = o.count_include_pad},
                             where);
  const std::int64_t P = pixels.shape()[2], Q = pixels.shape()[3];
  const Tensor columns =
      reshape(permute(pixels, {0, 2, 3, 1}, where), {outer, D, 1, P * Q * inner}, where);
  const Tensor y = pool(permute(columns, {0, 3, 1, 2}, where),
                        {.kernel = {o.kernel[0], 1},
                         .stride = {o.stride[0], 1},
                         .padding = {o.padding[0], 0},
                         .count_include_pad = o.count_include_pad},
                        where);
  const std::int64_t Z = y.shape()[2];
  const Tensor pooled = permute(y, {0, 2, 3, 1}, where);  // (outer, Z, 1, P * Q * inner)
  return last ? permute(reshape(pooled, {B, Z, P, Q, C}, where), {0, 4, 1, 2, 3}, where)
              : reshape(pooled, {B, C, Z, P, Q}, where);
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  auto [y, places] = kernels::max_pool2d(x, options, where);
  return record_linear("max_pool2d", where, std::move(y), x,
                       [places = places, shape = x.shape(), options, where](const Tensor& grad) {
                         return scatter_to_winners(grad, places, shape, options, where);
                       });
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  Tensor y = kernels::avg_pool2d(x, options, where);
  return record_linear("avg_pool2d", where, std::move(y), x,
                       [=, shape = x.shape()](const Tensor& grad) {
                         return spread_means(grad, shape, options, where);
                       });
}

Tensor max_pool1d(const Tensor& x, const Pool1dOptions& options, Where where) {
  return pool_row("max_pool1d", max_pool2d, x, options, where);
}

Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& options, Where where) {
  return pool_row("avg_pool1d", avg_pool2d, x, options, where);
}

Tensor max_pool3d(const Tensor& x, const Pool3dOptions& options, Where where) {
  check_volume("max_pool3d", x, options, where);
  return pool_volume(max_pool2d, x, options, where);
}

// Means of 16-bit values are rounded once, at the end.
Tensor avg_pool3d(const Tensor& x, const Pool3dOptions& options, Where where) {
  check_volume("avg_pool3d", x, options, where);
  const DType dtype = x.dtype(), math = math_dtype(dtype);
  if (math == dtype) return pool_volume(avg_pool2d, x, options, where);
  return to(pool_volume(avg_pool2d, to(x, math, where), options, where), dtype, where);
}

Tensor adaptive_avg_pool2d(const Tensor& x, PerAxis<2> output_size, Where where) {
  Tensor y = kernels::adaptive_avg_pool2d(x, output_size, where);
  return record_linear("adaptive_avg_pool2d", where, std::move(y), x,
                       [=, shape = x.shape()](const Tensor& grad) {
                         return spread_adaptive_means(grad, shape, where);
                       });
}

}  // namespace ringrad
