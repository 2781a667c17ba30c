#include <cstring>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/core/fill_cuda.h"
#include "ringrad/core/gpu/launch.h"
#include "ringrad/core/gpu/pack.h"

namespace ringrad::cuda {
namespace {

// V neighbours per thread, which the last thread writes one by one. Bound: bandwidth.
// REQUIRES: `to` is aligned for V elements
template <class T, int V>
__global__ void fill_pack_per_thread(T* to, std::int64_t count, T value) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * V;
  Pack<T, V> pack;
  for (T& one : pack.values) one = value;
  std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V;
  for (; i + V <= count; i += step) *reinterpret_cast<Pack<T, V>*>(to + i) = pack;
  for (; i < count; ++i) to[i] = value;
}

template <class T>
void fill(void* to, Device device, std::int64_t count, const void* element, Where where) {
  constexpr int kThreads = 256, V = 16 / sizeof(T);
  T value;
  std::memcpy(&value, element, sizeof value);
  const auto run = [&](int per_thread, auto kernel) {
    launch_on(device,
              {.name = "fill",
               .grid = num_blocks((count + per_thread - 1) / per_thread, kThreads),
               .block = kThreads,
               .bytes = static_cast<double>(count) * sizeof(T)},
              where, kernel, static_cast<T*>(to), count, value);
  };
  if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0)
    run(V, fill_pack_per_thread<T, V>);
  else
    run(1, fill_pack_per_thread<T, 1>);
}

}  // namespace

void fill_elements(void* to, Device device, std::int64_t count, const void* element,
                   std::size_t bytes, Where where) {
  if (count == 0) return;
  dispatch_size(bytes, [&]<class T>() { fill<T>(to, device, count, element, where); });
}

}  // namespace ringrad::cuda
