#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/index/nonzero_cuda.h"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// One element per thread. Bound: bandwidth.
__global__ void write_coordinates(const bool* flags, const std::int64_t* ends, std::int64_t n,
                                  Shape shape, std::int64_t* found) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < n; i += step) {
    if (!flags[i]) continue;
    std::int64_t* to = found + (ends[i] - 1) * shape.size();
    std::int64_t rest = i;
#pragma unroll  // so that the shape stays in registers
    for (int axis = kMaxDims - 1; axis >= 0; --axis) {
      if (axis >= shape.size()) continue;
      to[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
  }
}

}  // namespace

void write_nonzero(const Tensor& flags, const Tensor& ends, const Shape& shape, const Tensor& found,
                   Where where) {
  launch_on(flags.device(),
            {.name = "nonzero", .grid = num_blocks(flags.numel(), kThreads), .block = kThreads},
            where, write_coordinates, flags.device_data<bool>(), ends.device_data<std::int64_t>(),
            flags.numel(), shape, found.device_data<std::int64_t>());
}

}  // namespace ringrad::kernels::cuda
