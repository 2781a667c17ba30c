#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/order/order_key.h"
#include "ringrad/kernels/order/searchsorted_cuda.h"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// One value per thread. Bound: latency of log2(n) reads.
template <class T>
__global__ void search_value_per_thread(const T* sorted, std::int64_t n, const T* values,
                                        std::int64_t count, std::int64_t per_line, bool right,
                                        std::int64_t* places) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < count; i += step) places[i] = place_in(sorted + i / per_line * n, n, values[i], right);
}

}  // namespace

void searchsorted(const Tensor& sorted, const Tensor& values, std::int64_t per_line, bool right,
                  const Tensor& places, Where where) {
  const std::int64_t count = values.numel();
  dispatch_dtype(sorted.dtype(), [&]<class T>() {
    launch_on(sorted.device(),
              {.name = "searchsorted", .grid = num_blocks(count, kThreads), .block = kThreads},
              where, search_value_per_thread<T>, sorted.device_data<T>(), sorted.shape().back(),
              values.device_data<T>(), count, per_line, right, places.device_data<std::int64_t>());
  });
}

}  // namespace ringrad::kernels::cuda
