#include "ringrad/autograd/convolution/interpolate.h"

#include <cmath>

#include "ringrad/autograd/function.h"

namespace ringrad {
namespace {

using kernels::Resampling;

// Interpolation is linear in the image: its gradient is its adjoint, whose own gradient is
// interpolation.

Tensor spread(const Tensor& grad, const Resampling& resampling, Where where);

Tensor interpolated(const Tensor& x, const Resampling& resampling, Where where) {
  return record_linear("interpolate", where, kernels::resample(x, resampling, where), x,
                       [=](const Tensor& grad) { return spread(grad, resampling, where); });
}

Tensor spread(const Tensor& grad, const Resampling& resampling, Where where) {
  return record_linear(
      "interpolate_spread", where, kernels::resample_backward(grad, resampling, where), grad,
      [=](const Tensor& grad_output) { return interpolated(grad_output, resampling, where); });
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Where where) {
  check_floating("interpolate", x, where);
  RINGRAD_CHECK(x.dims() == 4, ShapeError, where, "interpolate: x must be (B, C, H, W); got shape ",
                x.shape());
  RINGRAD_CHECK(options.mode == Interpolation::bilinear || !options.align_corners, ValueError,
                where, "interpolate: align_corners must be of bilinear mode; got nearest");
  Resampling resampling{.mode = options.mode, .align_corners = options.align_corners};
  for (const unsigned i : {0u, 1u}) {
    const std::int64_t size = options.size[i], inputs = x.shape()[static_cast<int>(i) + 2];
    const double scale = options.scale[i];
    RINGRAD_CHECK((size > 0 && scale == 0) || (size == 0 && scale > 0 && std::isfinite(scale)),
                  ValueError, where,
                  "interpolate: either size or scale must be positive, for each axis; got size ",
                  size, " and scale ", scale);
    const double outputs =
        size > 0 ? static_cast<double>(size) : std::floor(static_cast<double>(inputs) * scale);
    RINGRAD_CHECK(
        inputs > 0 && outputs >= 1 && outputs < 0x1p31, ShapeError, where,
        "interpolate: image and result must have pixels, the result fewer than 2^31 along "
        "an axis; got shape ",
        x.shape(), ", size ", size, " and scale ", scale);
    resampling.input[i] = inputs;
    resampling.output[i] = static_cast<std::int64_t>(outputs);
    resampling.scale[i] = scale;
  }
  return interpolated(x, resampling, where);
}

}  // namespace ringrad
