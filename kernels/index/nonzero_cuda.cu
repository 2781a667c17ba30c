#include "ringrad/kernels/index/nonzero.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

// One element per thread. Bound: bandwidth.
__global__ void write_coordinates(const bool* flags, const std::int64_t* ends, std::int64_t n,
                                  Shape shape, std::int64_t* found) {
  for (const std::int64_t i : own_elements(n)) {
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
  launch_on(flags.device(), thread_per_element("nonzero", flags.numel()), where, write_coordinates,
            flags.device_data<bool>(), ends.device_data<std::int64_t>(), flags.numel(), shape,
            found.device_data<std::int64_t>());
}

}  // namespace ringrad::kernels::cuda
