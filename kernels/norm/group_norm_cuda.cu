// Group normalization on a GPU: the walks of batch norm (batch_norm_walks.cuh), for which each of
// the B * C planes of S positions is a channel, and two small kernels that merge the planes of a
// group. All passes over x are bound by bandwidth.
//
//     forward     batch_norm_moments (B * C)  ->  merge_moments (B * G)  ->  ApplyGroups
//     backward    SumGroupGradients  (B * C)  ->  merge_sums    (B * G)  ->  ApplyGroupGradients

#include <array>
#include <cmath>

#include "ringrad/core/view.h"
#include "ringrad/kernels/norm/batch_norm.h"
#include "ringrad/kernels/norm/batch_norm_walks.cuh"
#include "ringrad/kernels/norm/group_norm.h"
#include "ringrad/kernels/norm/parameter.cuh"
#include "ringrad/kernels/reduce/reduce.h"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kMergeThreads = 128;

// Inputs and outputs of the passes; null where a pass does not use one. p counts planes.
template <class T>
struct GroupPass {
  using Math = MathType<T>;
  const T *x, *grad;
  T* out;
  Parameter weight, bias;        // (C)
  const Math *mean, *rstd;       // (B, G)
  const Math *mean_g, *mean_gx;  // (B, G): of g and g * xhat, where g = grad * weight
  Math *sum_g, *sum_gx;          // (B, C): of grad and grad * xhat
  std::int64_t C, planes;        // planes per group

  __device__ Math scale(std::int64_t p) const {
    return rstd[p / planes] * load_parameter(weight, p % C, Math{1});
  }
};

template <class T>
struct ApplyGroups {
  using Math = MathType<T>;
  static constexpr bool kReduces = false, kHasResidual = false, kHasGradient = false;

  ApplyGroups() = default;
  __device__ ApplyGroups(const GroupPass<T>& pass, std::int64_t p)
      : mean(pass.mean[p / pass.planes]),
        scale(pass.scale(p)),
        bias(load_parameter(pass.bias, p % pass.C, Math{0})) {}
  __device__ Math operator()(Math x, Math, Math) const { return (x - mean) * scale + bias; }

  Math mean = 0, scale = 0, bias = 0;
};

template <class T>
struct SumGroupGradients {
  using Math = MathType<T>;
  static constexpr bool kReduces = true, kHasResidual = false, kHasGradient = true;

  SumGroupGradients() = default;
  __device__ SumGroupGradients(const GroupPass<T>& pass, std::int64_t p)
      : mean(pass.mean[p / pass.planes]) {}
  __device__ void take(Math x, Math, Math grad) {
    sums = sums + Pair<Math>{grad, grad * (x - mean)};
  }

  static __device__ void finish(const GroupPass<T>& pass, std::int64_t p,
                                const Pair<double>& total) {
    pass.sum_g[p] = static_cast<Math>(total.first);
    pass.sum_gx[p] =
        static_cast<Math>(total.second * static_cast<double>(pass.rstd[p / pass.planes]));
  }

  Math mean = 0;
  Pair<Math> sums{0, 0};
};

// rstd * (g - mean_g - xhat * mean_gx), computed as scale * grad + slope * (x - mean) + constant
template <class T>
struct ApplyGroupGradients {
  using Math = MathType<T>;
  static constexpr bool kReduces = false, kHasResidual = false, kHasGradient = true;

  ApplyGroupGradients() = default;
  __device__ ApplyGroupGradients(const GroupPass<T>& pass, std::int64_t p)
      : mean(pass.mean[p / pass.planes]), scale(pass.scale(p)) {
    const Math rstd = pass.rstd[p / pass.planes];
    slope = -rstd * rstd * pass.mean_gx[p / pass.planes];
    constant = -rstd * pass.mean_g[p / pass.planes];
  }
  __device__ Math operator()(Math x, Math, Math grad) const {
    return scale * grad + slope * (x - mean) + constant;
  }

  Math mean = 0, scale = 0, slope = 0, constant = 0;
};

// Thread t merges the moments of the t-th group's planes, which have equally many values.
template <class Math>
__global__ void merge_moments(const Math* means, const Math* vars, std::int64_t planes,
                              std::int64_t groups, double eps, Math* mean, Math* rstd) {
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= groups) return;
  const auto n = static_cast<double>(planes);
  double sum = 0, squares = 0;
  for (std::int64_t p = t * planes; p < (t + 1) * planes; ++p) sum += static_cast<double>(means[p]);
  for (std::int64_t p = t * planes; p < (t + 1) * planes; ++p) {
    const double distance = static_cast<double>(means[p]) - sum / n;
    squares += static_cast<double>(vars[p]) + distance * distance;
  }
  mean[t] = static_cast<Math>(sum / n);
  rstd[t] = static_cast<Math>(1 / std::sqrt(squares / n + eps));
}

// Thread t computes mean_g and mean_gx of the t-th group, of `count` values.
template <class T>
__global__ void merge_sums(GroupPass<T> pass, std::int64_t groups, double count,
                           MathType<T>* mean_g, MathType<T>* mean_gx) {
  using Math = MathType<T>;
  const std::int64_t t = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (t >= groups) return;
  Pair<double> total{0, 0};
  for (std::int64_t p = t * pass.planes; p < (t + 1) * pass.planes; ++p) {
    const auto weight = static_cast<double>(load_parameter(pass.weight, p % pass.C, Math{1}));
    total = total + Pair<double>{weight * static_cast<double>(pass.sum_g[p]),
                                 weight * static_cast<double>(pass.sum_gx[p])};
  }
  mean_g[t] = static_cast<Math>(total.first / count);
  mean_gx[t] = static_cast<Math>(total.second / count);
}

// -- Host -----------------------------------------------------------------------------------------

// x as the walks see it: every plane a channel.
Tensor as_planes(const Tensor& x, Where where) {
  const std::int64_t planes = x.shape()[0] * x.shape()[1];
  return aligned(view::reshape(x, {1, planes, x.numel() / planes}, where), where);
}

LaunchConfig one_thread_per_group(const char* name, std::int64_t groups) {
  return {.name = name, .grid = num_blocks(groups, kMergeThreads), .block = kMergeThreads};
}

}  // namespace

void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                const NormResult& result, Where where) {
  const Tensor planes = as_planes(x, where);
  const std::int64_t C = x.shape()[1], groups = result.mean.numel();
  const Options options{.dtype = result.mean.dtype(), .device = x.device()};
  const Tensor means = empty({planes.shape()[1]}, options, where),
               vars = empty({planes.shape()[1]}, options, where);
  batch_norm_moments(planes, {means, vars}, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    std::array<Tensor, 2> keep;
    GroupPass<T> pass{};
    pass.x = planes.device_data<T>();
    pass.out = result.output.device_data<T>();
    pass.weight = parameter_of(weight, dtype_of<Math>, keep[0], where);
    pass.bias = parameter_of(bias, dtype_of<Math>, keep[1], where);
    pass.mean = result.mean.device_data<Math>();
    pass.rstd = result.rstd.device_data<Math>();
    pass.C = C;
    pass.planes = C / result.mean.shape()[1];
    launch_on(x.device(), one_thread_per_group("merge_moments", groups), where, merge_moments<Math>,
              means.device_data<Math>(), vars.device_data<Math>(), pass.planes, groups, eps,
              result.mean.device_data<Math>(), result.rstd.device_data<Math>());
    run_walk<ApplyGroups<T>, T>("group_norm", planes, pass, 2, where);
  });
}

void group_norm_backward(const Tensor& grad_output, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& rstd, const NormGradients& result,
                         Where where) {
  const Tensor planes = as_planes(x, where), grad_planes = as_planes(grad_output, where);
  const std::int64_t B = x.shape()[0], C = x.shape()[1], groups = mean.numel();
  const Options options{.dtype = mean.dtype(), .device = x.device()};
  const Tensor sum_g = empty({B, C}, options, where), sum_gx = empty({B, C}, options, where);
  const Tensor mean_g = empty({groups}, options, where), mean_gx = empty({groups}, options, where);
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    Tensor keep;
    GroupPass<T> pass{};
    pass.x = planes.device_data<T>();
    pass.grad = grad_planes.device_data<T>();
    pass.out = result.input.device_data<T>();
    pass.weight = parameter_of(weight, dtype_of<Math>, keep, where);
    pass.mean = mean.device_data<Math>();
    pass.rstd = rstd.device_data<Math>();
    pass.mean_g = mean_g.device_data<Math>();
    pass.mean_gx = mean_gx.device_data<Math>();
    pass.sum_g = sum_g.device_data<Math>();
    pass.sum_gx = sum_gx.device_data<Math>();
    pass.C = C;
    pass.planes = C / mean.shape()[1];
    run_walk<SumGroupGradients<T>, T>("group_norm_backward_sums", planes, pass, 2, where);
    launch_on(x.device(), one_thread_per_group("merge_sums", groups), where, merge_sums<T>, pass,
              groups, static_cast<double>(x.numel() / groups), mean_g.device_data<Math>(),
              mean_gx.device_data<Math>());
    run_walk<ApplyGroupGradients<T>, T>("group_norm_backward", planes, pass, 3, where);
  });
  copy_(result.weight, sum(sum_gx, {0}, false, where), where);
  copy_(result.bias, sum(sum_g, {0}, false, where), where);
}

}  // namespace ringrad::kernels::cuda
