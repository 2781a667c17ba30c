#include "ringrad/kernels/pool/resample.h"

#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/pool/resample_axis.h"

namespace ringrad::kernels {
namespace {

ResampleAxis axis_of(const Resampling& resampling, unsigned i) {
  ResampleAxis axis{.inputs = resampling.input[i],
                    .outputs = resampling.output[i],
                    .linear = resampling.mode == Interpolation::bilinear,
                    .align_corners = resampling.align_corners};
  const auto inputs = static_cast<double>(axis.inputs), outputs = static_cast<double>(axis.outputs);
  if (axis.linear && axis.align_corners)
    axis.step = axis.outputs > 1 ? (inputs - 1) / (outputs - 1) : 0;
  else
    axis.step = resampling.scale[i] > 0 ? 1 / resampling.scale[i] : inputs / outputs;
  return axis;
}

// Runs on x in its memory order, and makes a result of the extents `size`.
template <auto kOnCpu, auto kOnCuda>
Tensor run(const Tensor& given, const Resampling& resampling, std::array<std::int64_t, 2> size,
           Where where) {
  const bool channels_last = given.is_channels_last() && !given.is_contiguous();
  const Layout layout = channels_last ? Layout::channels_last : Layout::contiguous;
  const Tensor x = to_layout(given, layout, where);
  const std::int64_t B = x.shape()[0], C = x.shape()[1];
  const ResampleGeometry geometry{.images = channels_last ? B : B * C,
                                  .C = channels_last ? C : 1,
                                  .rows = axis_of(resampling, 0),
                                  .columns = axis_of(resampling, 1)};
  const Tensor y = empty({B, C, size[0], size[1]},
                         {.dtype = x.dtype(), .device = x.device(), .layout = layout}, where);
  if (y.numel() == 0) return y;
  if (x.device().is_cuda())
    kOnCuda(geometry, x, y, where);
  else
    kOnCpu(geometry, x, y, where);
  return y;
}

}  // namespace

Tensor resample(const Tensor& x, const Resampling& resampling, Where where) {
  return run<cpu::resample, cuda::resample>(x, resampling, resampling.output, where);
}

Tensor resample_backward(const Tensor& grad, const Resampling& resampling, Where where) {
  return run<cpu::resample_backward, cuda::resample_backward>(grad, resampling, resampling.input,
                                                              where);
}

}  // namespace ringrad::kernels
