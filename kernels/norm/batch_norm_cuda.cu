// Batch normalization on a GPU: what its four passes do with a value. batch_norm_walks.cuh says how
// they traverse x in either memory order without copying it. All are bound by bandwidth.
//
// Sums are of distances from a value of the same channel, so that a large mean costs no digits. The
// moments are summed in float64, so they are the same numbers, rounded to float32, whatever the
// memory order of x.

#include <array>
#include <cmath>

#include "ringrad/kernels/norm/batch_norm.h"
#include "ringrad/kernels/norm/batch_norm_walks.cuh"
#include "ringrad/kernels/norm/parameter.cuh"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

// Inputs and outputs of the passes; null where a pass does not use one.
template <class T>
struct NormPass {
  using Math = MathType<T>;
  const T *x, *residual, *grad;
  T *out, *grad_residual;
  Math *first, *second;                               // (C): results from the two sums
  Parameter mean, rstd, weight, bias, sum_g, sum_gx;  // (C)
  std::int64_t channel_stride, rows;                  // rows: values per channel
  Math share;  // 1 / the number of values behind the moments, or 0
};

// sums of x - shift and of its square, where shift is the channel's first value
template <class T>
struct SumMoments {
  using Math = MathType<T>;
  static constexpr bool kReduces = true, kHasResidual = false, kHasGradient = false;

  SumMoments() = default;
  __device__ SumMoments(const NormPass<T>& pass, std::int64_t c) : shift(first_value(pass, c)) {}
  __device__ void take(Math x, Math, Math) {
    const auto distance = static_cast<double>(x - shift);
    sums = sums + Pair<double>{distance, distance * distance};
  }

  static __device__ Math first_value(const NormPass<T>& pass, std::int64_t c) {
    return static_cast<Math>(pass.x[c * pass.channel_stride]);
  }
  static __device__ void finish(const NormPass<T>& pass, std::int64_t c,
                                const Pair<double>& total) {
    const auto rows = static_cast<double>(pass.rows);
    const double offset = total.first / rows, var = total.second / rows - offset * offset;
    pass.first[c] = static_cast<Math>(static_cast<double>(first_value(pass, c)) + offset);
    pass.second[c] = static_cast<Math>(var < 0 ? 0 : var);  // rounding can make it negative
  }

  Math shift = 0;
  Pair<double> sums{0, 0};
};

// The map of one channel: y = (x - mean) * scale + bias, plus the residual if there is one
template <class T, bool kResidual>
struct Normalization {
  using Math = MathType<T>;

  Normalization() = default;
  __device__ Normalization(const NormPass<T>& pass, std::int64_t c)
      : mean(load_parameter(pass.mean, c, Math{0})),
        scale(load_parameter(pass.weight, c, Math{1}) * load_parameter(pass.rstd, c, Math{1})),
        bias(load_parameter(pass.bias, c, Math{0})) {}
  __device__ Math operator()(Math x, Math residual) const {
    const Math y = (x - mean) * scale + bias;
    return kResidual ? y + residual : y;
  }

  /// grad, or 0 where ReLU cut y off
  template <bool kRelu>
  __device__ Math passed(Math x, Math residual, Math grad) const {
    return kRelu && (*this)(x, residual) <= 0 ? Math{0} : grad;
  }

  Math mean = 0, scale = 0, bias = 0;
};

template <class T, bool kRelu, bool kResidual>
struct Apply {
  using Math = MathType<T>;
  static constexpr bool kReduces = false, kHasResidual = kResidual, kHasGradient = false;

  Apply() = default;
  __device__ Apply(const NormPass<T>& pass, std::int64_t c) : normalization(pass, c) {}
  __device__ Math operator()(Math x, Math residual, Math) const {
    const Math y = normalization(x, residual);
    return kRelu && y < 0 ? Math{0} : y;
  }

  Normalization<T, kResidual> normalization;
};

// sum of g and of g * (x - mean)
template <class T, bool kRelu, bool kResidual>
struct SumGradients {
  using Math = MathType<T>;
  static constexpr bool kReduces = true, kHasResidual = kResidual, kHasGradient = true;

  SumGradients() = default;
  __device__ SumGradients(const NormPass<T>& pass, std::int64_t c) : normalization(pass, c) {}
  __device__ void take(Math x, Math residual, Math grad) {
    const Math g = normalization.template passed<kRelu>(x, residual, grad);
    sums = sums + Pair<Math>{g, g * (x - normalization.mean)};
  }

  static __device__ void finish(const NormPass<T>& pass, std::int64_t c,
                                const Pair<double>& total) {
    const auto rstd = static_cast<double>(load_parameter(pass.rstd, c, Math{1}));
    pass.first[c] = static_cast<Math>(total.first);
    pass.second[c] = static_cast<Math>(total.second * rstd);
  }

  Normalization<T, kResidual> normalization;
  Pair<Math> sums{0, 0};
};

// scale * (g - sum_g / rows - xhat * sum_gx / rows), computed as
// scale * g + slope * (x - mean) + constant. If the moments are constants, scale * g for any x.
template <class T, bool kRelu, bool kResidual>
struct ApplyGradient {
  using Math = MathType<T>;
  static constexpr bool kReduces = false, kHasResidual = kResidual, kHasGradient = true;

  ApplyGradient() = default;
  __device__ ApplyGradient(const NormPass<T>& pass, std::int64_t c)
      : normalization(pass, c),
        slope(-normalization.scale * load_parameter(pass.rstd, c, Math{1}) * pass.share *
              load_parameter(pass.sum_gx, c, Math{0})),
        constant(-normalization.scale * pass.share * load_parameter(pass.sum_g, c, Math{0})),
        has_moments(pass.share > 0) {}
  __device__ Math operator()(Math x, Math residual, Math& grad) const {
    grad = normalization.template passed<kRelu>(x, residual, grad);
    const Math scaled = normalization.scale * grad;
    return has_moments ? scaled + slope * (x - normalization.mean) + constant : scaled;
  }

  Normalization<T, kResidual> normalization;
  Math slope = 0, constant = 0;
  bool has_moments = false;
};

// One channel per thread, in float64 whatever the dtypes.
__device__ double load_number(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::float64) return load<double>(data, dtype, i);
  return static_cast<double>(load<float>(data, dtype, i));
}
__device__ void store_number(void* data, DType dtype, std::int64_t i, double value) {
  if (dtype == DType::float64) return store<double>(data, dtype, i, value);
  store<float>(data, dtype, i, static_cast<float>(value));
}

// A (C) tensor of any floating dtype.
struct Channels {
  void* data;
  DType dtype;
  std::int64_t stride;

  __device__ double load(std::int64_t c) const { return load_number(data, dtype, c * stride); }
  __device__ void store(std::int64_t c, double value) const {
    store_number(data, dtype, c * stride, value);
  }
};

__global__ void invert_deviation(Channels var, double eps, Channels rstd, std::int64_t C) {
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c < C) rstd.store(c, 1 / std::sqrt(var.load(c) + eps));
}

__global__ void restore_variance(Channels rstd, double eps, Channels var, std::int64_t C) {
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= C) return;
  const double r = rstd.load(c), value = 1 / (r * r) - eps;
  var.store(c, value < 0 ? 0 : value);  // NaN stays NaN
}

__global__ void move_towards(Channels running, Channels moment, double correction, double momentum,
                             std::int64_t C) {
  const std::int64_t c = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= C) return;
  const double old = running.load(c);
  running.store(c, old + momentum * (moment.load(c) * correction - old));
}

// -- Host -----------------------------------------------------------------------------------------

// The pass over x, which is aligned, with the saved tensors. `keep` owns the memory that the pass
// points to.
template <class T>
NormPass<T> pass_over(const Tensor& x, const BatchNormSaved& saved, std::array<Tensor, 5>& keep,
                      Where where) {
  constexpr DType math = dtype_of<MathType<T>>;
  NormPass<T> pass{};
  pass.x = x.device_data<T>();
  if (saved.residual.defined()) {
    keep[4] = aligned(saved.residual, where);
    pass.residual = keep[4].device_data<T>();
  }
  pass.mean = parameter_of(saved.mean, math, keep[0], where);
  pass.rstd = parameter_of(saved.rstd, math, keep[1], where);
  pass.weight = parameter_of(saved.weight, math, keep[2], where);
  pass.bias = parameter_of(saved.bias, math, keep[3], where);
  return pass;
}

// Runs Op<T, relu, residual>. It moves `tensors` times the bytes of x, plus those that a residual
// adds.
template <template <class, bool, bool> class Op, class T>
void run_op(const char* name, const Tensor& x, const NormPass<T>& pass, bool relu, int tensors,
            Where where) {
  constexpr bool kBackward = Op<T, true, true>::kHasGradient;
  if (pass.residual == nullptr && !relu)
    run_walk<Op<T, false, false>, T>(name, x, pass, tensors, where);
  else if (pass.residual == nullptr)
    run_walk<Op<T, true, false>, T>(name, x, pass, tensors, where);
  else if (relu)
    run_walk<Op<T, true, true>, T>(name, x, pass, tensors + (pass.grad_residual ? 2 : 1), where);
  else if constexpr (!kBackward)  // without ReLU a gradient needs no residual
    run_walk<Op<T, false, true>, T>(name, x, pass, tensors + 1, where);
}

Channels channels_of(const Tensor& x) { return {x.raw_data(), x.dtype(), x.strides()[0]}; }

}  // namespace

void batch_norm_moments(const Tensor& x, const Moments& result, Where where) {
  const Tensor in = aligned(x, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    NormPass<T> pass{};
    pass.x = in.device_data<T>();
    pass.first = result.mean.device_data<Math>();
    pass.second = result.var.device_data<Math>();
    pass.rows = x.numel() / x.shape()[1];
    pass.channel_stride = x.strides()[1];
    run_walk<SumMoments<T>, T>("batch_norm_moments", in, pass, 1, where);
  });
}

void batch_norm_apply(const BatchNormSaved& saved, const Tensor& y, Where where) {
  const Tensor x = aligned(saved.x, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    std::array<Tensor, 5> keep;
    NormPass<T> pass = pass_over<T>(x, saved, keep, where);
    pass.out = y.device_data<T>();
    run_op<Apply, T>("batch_norm_apply", x, pass, saved.relu, 2, where);
  });
}

void batch_norm_backward_sums(const Tensor& grad_output, const BatchNormSaved& saved,
                              const BatchNormSums& result, Where where) {
  const Tensor x = aligned(saved.x, where), grad = aligned(grad_output, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    std::array<Tensor, 5> keep;
    NormPass<T> pass = pass_over<T>(x, saved, keep, where);
    pass.grad = grad.device_data<T>();
    pass.first = result.grad.device_data<Math>();
    pass.second = result.grad_xhat.device_data<Math>();
    run_op<SumGradients, T>("batch_norm_backward_sums", x, pass, saved.relu, 2, where);
  });
}

void batch_norm_backward_apply(const Tensor& grad_output, const BatchNormSaved& saved,
                               const BatchNormSums& sums, double rows,
                               const BatchNormGradients& result, Where where) {
  const Tensor x = aligned(saved.x, where), grad = aligned(grad_output, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    std::array<Tensor, 5> keep;
    std::array<Tensor, 2> keep_sums;
    NormPass<T> pass = pass_over<T>(x, saved, keep, where);
    pass.grad = grad.device_data<T>();
    pass.out = result.grad_input.device_data<T>();
    if (saved.residual.defined()) pass.grad_residual = result.grad_residual.device_data<T>();
    pass.sum_g = parameter_of(sums.grad, dtype_of<Math>, keep_sums[0], where);
    pass.sum_gx = parameter_of(sums.grad_xhat, dtype_of<Math>, keep_sums[1], where);
    pass.share = rows > 0 ? static_cast<Math>(1 / rows) : Math{0};
    run_op<ApplyGradient, T>("batch_norm_backward_apply", x, pass, saved.relu, 3, where);
  });
}

void batch_norm_rstd(const Tensor& var, double eps, const Tensor& rstd, Where where) {
  if (var.numel() == 0) return;
  launch_on(var.device(), thread_per_element("batch_norm_rstd", var.numel()), where,
            invert_deviation, channels_of(var), eps, channels_of(rstd), var.numel());
}

void batch_norm_var(const Tensor& rstd, double eps, const Tensor& var, Where where) {
  if (rstd.numel() == 0) return;
  launch_on(rstd.device(), thread_per_element("batch_norm_var", rstd.numel()), where,
            restore_variance, channels_of(rstd), eps, channels_of(var), rstd.numel());
}

void batch_norm_update_running(const Tensor& moment, double correction, double momentum,
                               const Tensor& running, Where where) {
  if (running.numel() == 0) return;
  launch_on(running.device(), thread_per_element("batch_norm_update_running", running.numel()),
            where, move_towards, channels_of(running), channels_of(moment), correction, momentum,
            running.numel());
}

}  // namespace ringrad::kernels::cuda
