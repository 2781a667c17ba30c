#include "ringrad/kernels/pool/pool.h"

#include <limits>

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/pool/pool_windows.h"

namespace ringrad::kernels {
namespace {

void check_image(const char* operation, const Shape& shape, Where where) {
  RINGRAD_CHECK(shape.size() == 4, ShapeError, where, operation,
                ": x must be (B, C, H, W); got shape ", shape);
}

/// The view that the loops have of a tensor of this shape: channels innermost, or single-channel
/// images.
PoolGeometry images_of(const char* operation, const Shape& shape, Layout layout, Where where) {
  RINGRAD_CHECK(shape[2] > 0 && shape[3] > 0, ShapeError, where, operation,
                ": an image must have pixels; got shape ", shape);
  const bool channels_last = layout == Layout::channels_last;
  PoolGeometry g;
  g.images = channels_last ? shape[0] : shape[0] * shape[1];
  g.C = channels_last ? shape[1] : 1;
  g.rows.extent = shape[2];
  g.columns.extent = shape[3];
  return g;
}

PoolGeometry sliding_geometry(const char* operation, const Shape& shape,
                              const Pool2dOptions& options, Layout layout, Where where) {
  check_image(operation, shape, where);
  PoolGeometry g = images_of(operation, shape, layout, where);
  g.place_width = options.kernel[1];
  for (const unsigned axis : {0u, 1u}) {
    PoolWindows<std::int64_t>& windows = axis == 0 ? g.rows : g.columns;
    check_pool_windows(operation, windows.extent, options.kernel[axis], options.stride[axis],
                       options.padding[axis], where);
    windows.kernel = options.kernel[axis];
    windows.stride = options.stride[axis] != 0 ? options.stride[axis] : options.kernel[axis];
    windows.padding = options.padding[axis];
    windows.count_padding = options.count_include_pad;
    windows.outputs = (windows.extent + 2 * windows.padding - windows.kernel) / windows.stride + 1;
  }
  return g;
}

PoolGeometry adaptive_geometry(const char* operation, const Shape& shape, PerAxis<2> output_size,
                               Layout layout, Where where) {
  check_image(operation, shape, where);
  for (const std::int64_t size : output_size)
    RINGRAD_CHECK(size > 0 && size <= std::numeric_limits<std::int32_t>::max(), ValueError, where,
                  operation, ": the output size must be positive and below 2^31; got ", size);
  PoolGeometry g = images_of(operation, shape, layout, where);
  g.rows.outputs = output_size[0];
  g.columns.outputs = output_size[1];
  return g;
}

Layout layout_of(const Tensor& x) {
  return x.is_channels_last() ? Layout::channels_last : Layout::contiguous;
}

/// x in one of the two layouts, and in the dtype in which the CPU loops compute. GPU kernels
/// convert as they load and store, so there x keeps its dtype.
Tensor operand(const Tensor& x, Layout layout, Where where) {
  const DType dtype = x.device().is_cuda() ? x.dtype() : math_dtype(x.dtype());
  return to_layout(cast(x, dtype, where), layout, where);
}

Tensor empty_result(const Shape& shape, const Tensor& operand, Layout layout, DType dtype,
                    Where where) {
  return empty(shape, {.dtype = dtype, .device = operand.device(), .layout = layout}, where);
}

Shape output_shape(const Shape& x, const PoolGeometry& g) { return {x[0], x[1], g.P(), g.Q()}; }

void check_output_shape(const char* operation, const char* what, const Tensor& tensor,
                        const Shape& expected, Where where) {
  RINGRAD_CHECK(tensor.shape() == expected, ShapeError, where, operation, ": ", what,
                " must have the output's shape ", expected, "; got ", tensor.shape());
}

bool fits_uint8(const Pool2dOptions& options) {
  return options.kernel[0] <= 256 && options.kernel[0] * options.kernel[1] <= 256;
}

DType place_dtype(const Pool2dOptions& options, Where where) {
  RINGRAD_CHECK(options.kernel[0] <= std::numeric_limits<std::int32_t>::max() / options.kernel[1],
                ValueError, where, "max_pool2d: a window must have less than 2^31 places; got ",
                options.kernel[0], " x ", options.kernel[1]);
  return fits_uint8(options) ? DType::uint8 : DType::int32;
}

void check_places(const char* operation, const Tensor& values, const Tensor& places,
                  const Pool2dOptions& options, Where where) {
  check_floating(operation, values, where);
  check_same_device(operation, values, places, where);
  const DType expected = place_dtype(options, where);
  RINGRAD_CHECK(places.dtype() == expected, DTypeError, where, operation, ": places must be ",
                expected, "; got ", places.dtype());
}

Tensor average(const Tensor& x, const PoolGeometry& g, Layout layout, Where where) {
  const Tensor in = operand(x, layout, where);
  const Tensor y = empty_result(output_shape(x.shape(), g), in, layout, in.dtype(), where);
  (in.device().is_cuda() ? cuda::avg_pool : cpu::avg_pool)(g, in, y, where);
  return cast(y, x.dtype(), where);
}

Tensor average_backward(const Tensor& grad_output, const Shape& input_shape, const PoolGeometry& g,
                        Layout layout, Where where) {
  const Tensor grad = operand(grad_output, layout, where);
  const Tensor result = empty_result(input_shape, grad, layout, grad.dtype(), where);
  (grad.device().is_cuda() ? cuda::avg_pool_backward : cpu::avg_pool_backward)(g, grad, result,
                                                                               where);
  return cast(result, grad_output.dtype(), where);
}

}  // namespace

void check_pool_windows(const char* operation, std::int64_t extent, std::int64_t kernel,
                        std::int64_t stride, std::int64_t padding, Where where) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  RINGRAD_CHECK(kernel > 0 && kernel <= kMax && stride >= 0 && stride <= kMax && padding >= 0 &&
                    padding <= kernel / 2,
                ValueError, where, operation,
                ": the kernel must be positive, the stride not negative, both below 2^31, and the "
                "padding at most half of the kernel; got kernel ",
                kernel, ", stride ", stride, ", padding ", padding);
  RINGRAD_CHECK(extent + 2 * padding >= kernel, ShapeError, where, operation,
                ": the window must fit into the padded input; got an extent of ",
                extent + 2 * padding, " for a window of ", kernel);
}

MaxPool2dResult max_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  check_floating("max_pool2d", x, where);
  const Layout layout = layout_of(x);
  const PoolGeometry g = sliding_geometry("max_pool2d", x.shape(), options, layout, where);
  const Tensor in = operand(x, layout, where);
  const Shape shape = output_shape(x.shape(), g);
  const Tensor y = empty_result(shape, in, layout, in.dtype(), where);
  const Tensor places = empty_result(shape, in, layout, place_dtype(options, where), where);
  (in.device().is_cuda() ? cuda::max_pool : cpu::max_pool)(g, in, y, places, where);
  return {cast(y, x.dtype(), where), places};
}

Tensor max_pool2d_backward(const Tensor& grad_output, const Tensor& places,
                           const Shape& input_shape, const Pool2dOptions& options, Where where) {
  constexpr const char* kOperation = "max_pool2d_backward";
  const Layout layout = layout_of(places);
  const PoolGeometry g = sliding_geometry(kOperation, input_shape, options, layout, where);
  check_places(kOperation, grad_output, places, options, where);
  check_output_shape(kOperation, "the gradient", grad_output, output_shape(input_shape, g), where);
  check_output_shape(kOperation, "places", places, output_shape(input_shape, g), where);
  const Tensor grad = operand(grad_output, layout, where);
  const Tensor winners = to_layout(places, layout, where);
  const Tensor result = empty_result(input_shape, grad, layout, grad.dtype(), where);
  (grad.device().is_cuda() ? cuda::max_pool_backward : cpu::max_pool_backward)(g, grad, winners,
                                                                               result, where);
  return cast(result, grad_output.dtype(), where);
}

Tensor max_pool2d_gather(const Tensor& x, const Tensor& places, const Pool2dOptions& options,
                         Where where) {
  constexpr const char* kOperation = "max_pool2d_gather";
  const Layout layout = layout_of(places);
  const PoolGeometry g = sliding_geometry(kOperation, x.shape(), options, layout, where);
  check_places(kOperation, x, places, options, where);
  check_output_shape(kOperation, "places", places, output_shape(x.shape(), g), where);
  const Tensor in = operand(x, layout, where), winners = to_layout(places, layout, where);
  const Tensor y = empty_result(places.shape(), in, layout, in.dtype(), where);
  (in.device().is_cuda() ? cuda::max_pool_gather : cpu::max_pool_gather)(g, in, winners, y, where);
  return cast(y, x.dtype(), where);
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options, Where where) {
  check_floating("avg_pool2d", x, where);
  const Layout layout = layout_of(x);
  return average(x, sliding_geometry("avg_pool2d", x.shape(), options, layout, where), layout,
                 where);
}

Tensor avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape,
                           const Pool2dOptions& options, Where where) {
  constexpr const char* kOperation = "avg_pool2d_backward";
  check_floating(kOperation, grad_output, where);
  const Layout layout = layout_of(grad_output);
  const PoolGeometry g = sliding_geometry(kOperation, input_shape, options, layout, where);
  check_output_shape(kOperation, "the gradient", grad_output, output_shape(input_shape, g), where);
  return average_backward(grad_output, input_shape, g, layout, where);
}

Tensor adaptive_avg_pool2d(const Tensor& x, PerAxis<2> output_size, Where where) {
  constexpr const char* kOperation = "adaptive_avg_pool2d";
  check_floating(kOperation, x, where);
  const Layout layout = layout_of(x);
  return average(x, adaptive_geometry(kOperation, x.shape(), output_size, layout, where), layout,
                 where);
}

Tensor adaptive_avg_pool2d_backward(const Tensor& grad_output, const Shape& input_shape,
                                    Where where) {
  constexpr const char* kOperation = "adaptive_avg_pool2d_backward";
  check_floating(kOperation, grad_output, where);
  check_image(kOperation, grad_output.shape(), where);
  const Layout layout = layout_of(grad_output);
  const PoolGeometry g = adaptive_geometry(
      kOperation, input_shape, {grad_output.shape()[2], grad_output.shape()[3]}, layout, where);
  check_output_shape(kOperation, "the gradient", grad_output, output_shape(input_shape, g), where);
  return average_backward(grad_output, input_shape, g, layout, where);
}

}  // namespace ringrad::kernels
