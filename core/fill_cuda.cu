#include <cstring>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/core/fill_cuda.h"
#include "ringrad/core/gpu/launch.h"

namespace ringrad::cuda {
namespace {

// One element per thread. Bound: bandwidth.
template <class T>
__global__ void fill_thread_per_element(T* to, std::int64_t count, T value) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = value;
}

template <class T>
void fill(void* to, Device device, std::int64_t count, const void* element, Where where) {
  constexpr int kThreads = 256;
  T value;
  std::memcpy(&value, element, sizeof value);
  launch_on(device,
            {.name = "fill",
             .grid = num_blocks(count, kThreads),
             .block = kThreads,
             .bytes = static_cast<double>(count) * sizeof(T)},
            where, fill_thread_per_element<T>, static_cast<T*>(to), count, value);
}

}  // namespace

void fill_elements(void* to, Device device, std::int64_t count, const void* element,
                   std::size_t bytes, Where where) {
  if (count == 0) return;
  dispatch_size(bytes, [&]<class T>() { fill<T>(to, device, count, element, where); });
}

}  // namespace ringrad::cuda
