#include "ringrad/kernels/norm/row_norm.cuh"
#include "ringrad/kernels/norm/row_norm.h"

namespace ringrad::kernels::cuda {

template <bool kCentred>
void row_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
              const NormResult& result, Where where) {
  constexpr const char* name = kCentred ? "layer_norm" : "rms_norm";
  const Tensor in = aligned(x, where);
  const double bytes = 2 * bytes_of(x);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    Tensor keep[2];
    const std::int64_t C = x.shape().back();
    const RowNormForward<T> args{.x = in.device_data<T>(),
                                 .weight = parameter_of(weight, dtype_of<Math>, keep[0], where),
                                 .bias = parameter_of(bias, dtype_of<Math>, keep[1], where),
                                 .y = result.output.device_data<T>(),
                                 .mean = kCentred ? result.mean.device_data<Math>() : nullptr,
                                 .rstd = result.rstd.device_data<Math>(),
                                 .rows = x.numel() / C,
                                 .C = C,
                                 .eps = static_cast<Math>(eps)};
    const bool fits =
        dispatch_threads_per_row<kPacks<T>, 256>(packs_per_row<T>(C), [&]<int kRowThreads>() {
          launch_on(x.device(), threads_per_row<kRowThreads>(name, args.rows, bytes), where,
                    row_norm_in_registers<T, kCentred, kRowThreads>, args);
        });
    if (fits) return;
    const LaunchConfig config{.name = name,
                              .grid = static_cast<unsigned>(args.rows),
                              .block = kRowNormThreads,
                              .bytes = bytes};
    launch_on(x.device(), config, where, row_norm_block_per_row<T, kCentred>, args);
  });
}

#define RINGRAD_INSTANTIATE(kCentred)                                                   \
  template void row_norm<kCentred>(const Tensor&, const Tensor&, const Tensor&, double, \
                                   const NormResult&, Where);
RINGRAD_INSTANTIATE(true)
RINGRAD_INSTANTIATE(false)
#undef RINGRAD_INSTANTIATE

}  // namespace ringrad::kernels::cuda
