// RMS norm: two kernels, their launches, and the gradient. docs/own_kernel.md explains this file.

#include <cstdint>
#include <limits>

#include "ringrad/autograd/function.h"
#include "ringrad/autograd/movement.h"
#include "ringrad/core/gpu/launch.h"
#include "ringrad/examples/own_kernel/rms_norm.h"

using namespace ringrad;

namespace {

constexpr int kThreads = 256;  // of a block; a block has a row
constexpr int kWarps = kThreads / 32;

// The sum of all threads' values, for all threads.
__device__ float block_sum(float value) {
  RINGRAD_SHARED(float, sums, [kWarps]);
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();  // every warp has written its sum
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp];
  __syncthreads();  // every thread has read them: the next call may write
  return total;
}

// y[row, i] = x[row, i] * scale[row], where scale = 1 / sqrt(mean(x^2) + epsilon). Bound:
// bandwidth.
__global__ void normalize_row(const float* x, float* y, float* scale, std::int64_t n,
                              float epsilon) {
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) squares += x[i] * x[i];
  const float factor = 1 / sqrtf(block_sum(squares) / static_cast<float>(n) + epsilon);
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) y[i] = x[i] * factor;
  if (threadIdx.x == 0) scale[blockIdx.x] = factor;
}

// dx = scale * (g - y * mean(g * y)), with y = x * scale.
__global__ void normalize_row_backward(const float* g, const float* x, const float* scale,
                                       float* dx, std::int64_t n) {
  const float factor = scale[blockIdx.x];
  g += blockIdx.x * n;
  x += blockIdx.x * n;
  dx += blockIdx.x * n;
  float products = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) products += g[i] * x[i] * factor;
  const float mean = block_sum(products) / static_cast<float>(n);
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads)
    dx[i] = factor * (g[i] - x[i] * factor * mean);
}

Tensor backward_of(const Tensor& g, const Tensor& x, const Tensor& scale, Where where) {
  const Tensor grad = contiguous(g), dx = empty_like(x);
  launch_on(x.device(), {"normalize_row_backward", static_cast<unsigned>(scale.numel()), kThreads},
            where, normalize_row_backward, grad.device_data<float>(), x.device_data<float>(),
            scale.device_data<float>(), dx.device_data<float>(), x.numel() / scale.numel());
  return dx;
}

}  // namespace

Tensor rms_norm(const Tensor& x, float epsilon, Where where) {
  RINGRAD_CHECK(
      x.device().is_cuda() && x.dtype() == DType::float32 && x.is_contiguous() && x.dims() > 0 &&
          x.numel() > 0,
      ValueError, where,
      "rms_norm: x must be float32 and contiguous, with an axis and elements, on a GPU; got ",
      x.dtype(), " ", x.shape(), x.is_contiguous() ? "" : " with gaps or permuted axes", " on ",
      x.device());
  const std::int64_t n = x.shape()[x.dims() - 1], rows = x.numel() / n;
  RINGRAD_CHECK(rows <= std::numeric_limits<std::int32_t>::max(), ValueError, where,
                "rms_norm: x must have less than 2^31 rows, a block for each; got ", rows);
  const Tensor y = empty_like(x), scale = empty({rows}, {.device = x.device()});
  launch_on(x.device(), {"normalize_row", static_cast<unsigned>(rows), kThreads}, where,
            normalize_row, x.device_data<float>(), y.device_data<float>(),
            scale.device_data<float>(), n, epsilon);
  if (needs_grad(x))
    record("rms_norm", where, y, {&x}, [x = save(x), scale](BackwardContext& context) {
      RINGRAD_CHECK(!grad_enabled(), AutogradError, context.where(),
                    "rms_norm: its gradient must not be differentiated again");
      context.set(0, backward_of(context.grad_output(), x.get(), scale, context.where()));
    });
  return y;
}
