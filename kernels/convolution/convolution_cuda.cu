// Convolutions on a GPU, as a ladder:
//
//     convolution_direct_cuda.cuh    the definition; for small problems, and for groups of so few
//                                    channels that tiles would be mostly empty, such as one channel
//                                    per group
//     gemm.cuh                       tiles of a matrix product whose left side, patches of images,
//                                    is read from the images directly (convolution_operands.cuh)

#include <algorithm>
#include <iterator>
#include <limits>

#include "ringrad/core/view.h"
#include "ringrad/kernels/convolution/convolution_direct_cuda.cuh"
#include "ringrad/kernels/convolution/convolution_kernels.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/copy/fill.h"
#include "ringrad/kernels/matmul/gemm.cuh"
#include "ringrad/kernels/per_element.cuh"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad::kernels::cuda {
namespace {

constexpr std::int64_t kInt32 = std::numeric_limits<std::int32_t>::max();

// True if every number that WindowGeometry<int> computes, other than memory offsets, fits into 32
// bits.
bool fits_32_bits(const ConvolutionGeometry& g) {
  const auto& [rank, stride, padding, dilation, groups] = g.options;
  const std::int64_t numbers[] = {g.B * g.pixels_of_x(),
                                  g.B * g.pixels_of_y(),
                                  g.K * g.taps() * g.group_inputs(),
                                  g.D + 2 * padding[0] + stride[0] + dilation[0],
                                  g.H + 2 * padding[1] + stride[1] + dilation[1],
                                  g.W + 2 * padding[2] + stride[2] + dilation[2],
                                  g.C,
                                  g.K};
  return std::all_of(std::begin(numbers), std::end(numbers),
                     [](std::int64_t n) { return n <= kInt32; });
}

// A product has `columns` columns per group. Tiles pay off if they are more than an eighth full.
bool uses_tiles(const ConvolutionGeometry& g, std::int64_t columns) {
  constexpr std::int64_t kFewColumns = 8, kFewMultiplications = 1 << 15;
  const std::int64_t filter_size = g.K * g.taps() * g.group_inputs();
  return fits_32_bits(g) && columns > kFewColumns &&
         g.B * g.pixels_of_y() * filter_size > kFewMultiplications;
}

// Calls launch(geometry) with integers wide enough to count the elements of the images.
template <class Launch>
void with_geometry(const ConvolutionGeometry& g, Launch launch) {
  if (fits_32_bits(g) && g.B * g.pixels_of_x() * g.C <= kInt32 &&
      g.B * g.pixels_of_y() * g.K <= kInt32)
    launch(WindowGeometry<std::int32_t>(g));
  else
    launch(WindowGeometry<std::int64_t>(g));
}

// One product per group; the strides between groups are in elements.
GemmShape product(const ConvolutionGeometry& g, std::int64_t M, std::int64_t N, std::int64_t K,
                  const Strides& out, const Strides& a, const Strides& b, const Strides& bias) {
  return {.M = static_cast<unsigned>(M),
          .N = static_cast<unsigned>(N),
          .K = static_cast<unsigned>(K),
          .batch = make_loop_nest<4>(Shape{g.options.groups}, {&out, &a, &b, &bias}),
          .num_products = static_cast<unsigned>(g.options.groups)};
}

template <class T>
GemmOutput<T> output(const Tensor& out, std::int64_t run, std::int64_t row,
                     const GemmShape& shape) {
  return {.data = out.device_data<T>(),
          .row = static_cast<unsigned>(row),
          .pack = pack_of(out.raw_data(), sizeof(T), run, row, shape.batch, 0)};
}

// The operand of a product made from images; `number` is the operand's index in shape.batch.
template <template <class> class Side, class T>
Side<T> patches(const ConvolutionGeometry& g, const Tensor& images, std::int64_t group_channels,
                const GemmShape& shape, unsigned number) {
  const T* data = images.device_data<T>();
  const std::int64_t channels = group_channels * g.options.groups;
  return {.data = data,
          .g = WindowGeometry<int>(g),
          .pack = pack_of(data, sizeof(T), group_channels, channels, shape.batch, number)};
}

template <class T>
void forward(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
             const Tensor& bias, const Tensor& y, Where where) {
  const Tensor filter = to_layout(weight, Layout::channels_last, where);
  const T* offsets = bias.defined() ? bias.device_data<T>() : nullptr;
  const std::int64_t inputs = g.group_inputs(), outputs = g.group_outputs();
  if (!uses_tiles(g, outputs))
    return with_geometry(g, [&]<class Index>(const WindowGeometry<Index>& window) {
      launch_on(y.device(), thread_per_element(g.name(ConvolutionProduct::forward), y.numel()),
                where, convolution_direct<T, Index>, window, x.device_data<T>(),
                filter.device_data<T>(), offsets, y.device_data<T>());
    });

  const std::int64_t terms = g.taps() * inputs;
  const GemmShape shape = product(g, g.B * g.pixels_of_y(), outputs, terms, {outputs}, {inputs},
                                  {outputs * terms}, {outputs});
  GemmOutput<T> out = output<T>(y, outputs, g.K, shape);
  out.bias = offsets;
  gemm(g.name(ConvolutionProduct::forward), y.device(), shape,
       patches<Patches, T>(g, x, inputs, shape, 1),
       matrix_operand<T, true>(filter.device_data<T>(), {outputs, terms, terms, 1}, shape.batch, 2),
       out, where);
}

template <class T>
void backward_input(const ConvolutionGeometry& g, const Tensor& grad_y, const Tensor& weight,
                    const Tensor& grad_x, Where where) {
  const std::int64_t G = g.options.groups, inputs = g.group_inputs(), outputs = g.group_outputs();
  if (!uses_tiles(g, inputs)) {
    const Tensor filter = to_layout(weight, Layout::channels_last, where);
    return with_geometry(g, [&]<class Index>(const WindowGeometry<Index>& window) {
      launch_on(grad_x.device(),
                thread_per_element(g.name(ConvolutionProduct::backward_input), grad_x.numel()),
                where, convolution_backward_input_direct<T, Index>, window, grad_y.device_data<T>(),
                filter.device_data<T>(), grad_x.device_data<T>());
    });
  }
  // (K, C / G, taps) as (G, taps, K / G, C / G)
  const Tensor groups =
      view::reshape(contiguous(weight, where), {G, outputs, inputs, g.taps()}, where);
  const Tensor filter = contiguous(view::permute(groups, {0, 3, 1, 2}, where), where);
  const std::int64_t terms = g.taps() * outputs;
  const GemmShape shape =
      product(g, g.B * g.pixels_of_x(), inputs, terms, {inputs}, {outputs}, {terms * inputs}, {0});
  gemm(
      g.name(ConvolutionProduct::backward_input), grad_x.device(), shape,
      patches<GradientPatches, T>(g, grad_y, outputs, shape, 1),
      matrix_operand<T, false>(filter.device_data<T>(), {inputs, terms, 1, inputs}, shape.batch, 2),
      output<T>(grad_x, inputs, g.C, shape), where);
}

// Sums slices of y's rows (b, z, p): one slice for a small problem, else enough for kEnoughThreads
// threads.
template <class T>
void backward_weight_direct(const ConvolutionGeometry& g, const Tensor& x, const Tensor& grad_y,
                            const Tensor& grad_weight, Where where) {
  constexpr std::int64_t kEnoughThreads = 1 << 17, kFewMultiplications = 1 << 15;
  const std::int64_t rows = g.B * g.Z * g.P, size = grad_weight.numel();
  const std::int64_t wanted = rows * g.Q * size > kFewMultiplications ? kEnoughThreads / size : 1;
  const std::int64_t slice = ceil_div(rows, std::max<std::int64_t>(wanted, 1));
  const std::int64_t num_slices = ceil_div(rows, slice);
  const Tensor parts = empty({num_slices, g.K, g.U * g.R, g.S, g.group_inputs()},
                             {.dtype = math_dtype(x.dtype()), .device = x.device()}, where);
  with_geometry(g, [&]<class Index>(const WindowGeometry<Index>& window) {
    launch_on(x.device(),
              thread_per_element(g.name(ConvolutionProduct::backward_weight), parts.numel()), where,
              convolution_backward_weight_direct<T, Index>, window, num_slices, slice,
              x.device_data<T>(), grad_y.device_data<T>(), parts.device_data<MathType<T>>());
  });
  const Tensor filter =
      num_slices > 1 ? sum(parts, {0}, false, where) : view::select(parts, 0, 0, where);
  copy_(grad_weight, view::permute(filter, {0, 3, 1, 2}, where), where);
}

template <class T>
void backward_weight(const ConvolutionGeometry& g, const Tensor& x, const Tensor& grad_y,
                     const Tensor& grad_weight, Where where) {
  const std::int64_t inputs = g.group_inputs(), outputs = g.group_outputs();
  if (!uses_tiles(g, outputs)) return backward_weight_direct<T>(g, x, grad_y, grad_weight, where);

  const std::int64_t pixels = g.B * g.pixels_of_y(), columns = g.taps() * inputs;
  const GemmShape shape =
      product(g, outputs, columns, pixels, {outputs * columns}, {outputs}, {inputs}, {0});
  const Tensor filter =
      empty(grad_weight.shape(),
            {.dtype = x.dtype(), .device = x.device(), .layout = Layout::channels_last}, where);
  gemm(g.name(ConvolutionProduct::backward_weight), x.device(), shape,
       matrix_operand<T, false>(grad_y.device_data<T>(), {outputs, pixels, 1, g.K}, shape.batch, 1),
       TransposedOperand<Patches<T>>{patches<Patches, T>(g, x, inputs, shape, 2)},
       output<T>(filter, columns, columns, shape), where);
  copy_(grad_weight, filter, where);
}

}  // namespace

void convolution(const ConvolutionGeometry& g, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const Tensor& y, Where where) {
  if (y.numel() == 0) return;
  if (x.numel() == 0) {
    zero_(y, where);
    if (bias.defined()) copy_(y, view::reshape(bias, {1, g.K, 1, 1}, where), where);
    return;
  }
  dispatch_floating(y.dtype(), [&]<class T>() { forward<T>(g, x, weight, bias, y, where); });
}

void convolution_backward_input(const ConvolutionGeometry& g, const Tensor& grad_y,
                                const Tensor& weight, const Tensor& grad_x, Where where) {
  if (grad_x.numel() == 0) return;
  if (grad_y.numel() == 0) return zero_(grad_x, where);
  dispatch_floating(grad_x.dtype(),
                    [&]<class T>() { backward_input<T>(g, grad_y, weight, grad_x, where); });
}

void convolution_backward_weight(const ConvolutionGeometry& g, const Tensor& x,
                                 const Tensor& grad_y, const Tensor& grad_weight, Where where) {
  if (grad_weight.numel() == 0) return;
  if (x.numel() == 0) return zero_(grad_weight, where);
  dispatch_floating(x.dtype(),
                    [&]<class T>() { backward_weight<T>(g, x, grad_y, grad_weight, where); });
}

}  // namespace ringrad::kernels::cuda
