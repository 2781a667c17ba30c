// The backward pass of layer and RMS normalization on a GPU: which kernels of row_norm_backward.cuh
// run, on how many blocks.

#include <algorithm>
#include <cstdint>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/norm/row_norm.h"
#include "ringrad/kernels/norm/row_norm_backward.cuh"

namespace ringrad::kernels::cuda {
namespace {

// Number of blocks that share `rows`: a multiple of V, with at least four rows each if that fills
// the GPU, and never so many that their sums are significant next to the data.
template <class T, int kRowThreads>
std::int64_t num_blocks_of_rows(std::int64_t rows) {
  constexpr std::int64_t kMost = kRowThreads > 128 ? 256 : 1024, V = kPack<T>;
  const std::int64_t blocks = std::min(kMost, rows / (4 * kRowsPerBlock<kRowThreads>));
  return (blocks + V) / V * V;
}

}  // namespace

template <bool kCentred>
void row_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                       const NormResult& statistics, const NormGradients& result, Where where) {
  constexpr const char* name = kCentred ? "layer_norm_backward" : "rms_norm_backward";
  const Device device = x.device();
  const Tensor grad = aligned(grad_output, where), in = aligned(x, where);
  const double bytes = 3 * bytes_of(x);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    Tensor keep, partials;
    const std::int64_t C = x.shape().back(), rows = x.numel() / C;
    RowNormBackward<T, kCentred> args{
        .grad_y = grad.device_data<T>(),
        .x = in.device_data<T>(),
        .weight = parameter_of(weight, dtype_of<Math>, keep, where),
        .mean = kCentred ? statistics.mean.device_data<Math>() : nullptr,
        .rstd = statistics.rstd.device_data<Math>(),
        .grad_x = result.input.device_data<T>(),
        .partials = nullptr,
        .rows = rows,
        .C = C};
    const auto make_partials = [&](std::int64_t blocks) {
      partials = empty({blocks, args.kSums, C}, {.dtype = dtype_of<Math>, .device = device}, where);
      args.partials = partials.device_data<Math>();
    };
    const unsigned column_blocks = num_blocks(C, kColumns);
    const bool fits =
        dispatch_threads_per_row<kPacksKept<T>, 512>(packs_per_row<T>(C), [&]<int kRowThreads>() {
          make_partials(num_blocks_of_rows<T, kRowThreads>(rows));
          LaunchConfig config = threads_per_row<kRowThreads>(name, rows, bytes);
          config.grid = static_cast<unsigned>(partials.shape()[0]);
          launch_on(device, config, where, row_norm_backward_in_registers<T, kCentred, kRowThreads>,
                    args);
        });
    if (!fits) {
      make_partials(std::min<std::int64_t>(num_blocks(rows, 4 * kStripes), 64));
      launch_on(device,
                {.name = name,
                 .grid = static_cast<unsigned>(rows),
                 .block = kGradientThreads,
                 .bytes = bytes},
                where, row_norm_backward_block_per_row<T, kCentred>, args);
      launch_on(device,
                {.name = "sum_columns",
                 .grid = {column_blocks, static_cast<unsigned>(partials.shape()[0])},
                 .block = {kColumns, kStripes},
                 .bytes = 2 * bytes_of(x)},
                where, sum_columns_of_rows<T, kCentred>, args);
    }
    launch_on(device,
              {.name = "sum_partials",
               .grid = num_blocks(args.kSums * C, kColumns),
               .block = {kColumns, kStripes},
               .bytes = bytes_of(partials)},
              where, sum_partials<Math>, args.partials, partials.shape()[0], args.kSums * C, C,
              result.weight.device_data<Math>(),
              kCentred ? result.bias.device_data<Math>() : nullptr);
  });
}

#define RINGRAD_INSTANTIATE(kCentred)                                                    \
  template void row_norm_backward<kCentred>(const Tensor&, const Tensor&, const Tensor&, \
                                            const NormResult&, const NormGradients&, Where);
RINGRAD_INSTANTIATE(true)
RINGRAD_INSTANTIATE(false)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cuda
