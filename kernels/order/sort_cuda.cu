// Sorts on a GPU by Batcher's bitonic network (1968), on keys of 64 bits for all dtypes:
//
//     make_items      a line of n elements becomes P items, the next power of two; those beyond n
//                     come last
//     sort_tiles      all steps between items of one tile, in shared memory
//     exchange        a step between items that are farther apart: one pass over memory
//     take_items      the first k positions of each line, and the elements there
//
// In stage `size`, runs of `size` / 2 items are sorted, up and down in turn, and merged into runs
// of `size`. The step with distance d compares items whose numbers differ in the bit d alone.

#include <algorithm>
#include <bit>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/kernels/order/order_key.h"
#include "ringrad/kernels/order/sort.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 2 * kThreads;

// Item i of line l is at l * padded + i.
struct Items {
  std::uint64_t* keys;
  std::int32_t* positions;
  std::int64_t padded, count;
};

// An item per thread. Bound: bandwidth.
template <class T>
__global__ void make_items(const T* x, Lines lines, bool descending, Items items) {
  for (const std::int64_t i : own_elements(items.count)) {
    const std::int64_t line = i / items.padded, position = i % items.padded;
    const std::int64_t outer = line / lines.inner, inner = line % lines.inner;
    items.keys[i] =
        position < lines.n
            ? order_key(x[(outer * lines.n + position) * lines.inner + inner], descending)
            : ~std::uint64_t{0};
    items.positions[i] = static_cast<std::int32_t>(position);
  }
}

// Puts items a < b of a line in order: b first if they are in a run that goes down.
__device__ void compare(std::uint64_t* keys, std::int32_t* positions, std::int64_t a,
                        std::int64_t b, bool down) {
  const bool swapped = keys[b] < keys[a] || (keys[b] == keys[a] && positions[b] < positions[a]);
  if (swapped == down) return;
  const std::uint64_t key = keys[a];
  const std::int32_t position = positions[a];
  keys[a] = keys[b];
  positions[a] = positions[b];
  keys[b] = key;
  positions[b] = position;
}

// The item, with the bit `distance` unset, that number i of all pairs begins with.
__device__ std::int64_t first_of_pair(std::int64_t i, std::int64_t distance) {
  return 2 * i - i % distance;
}

// Of the last stage all runs go up; of earlier ones, those whose number in the line is odd go down.
__device__ bool goes_down(std::int64_t item, std::int64_t size, std::int64_t padded) {
  return (item % padded & size) != 0;
}

// A pair per thread. Bound: bandwidth.
__global__ void exchange(Items items, std::int64_t size, std::int64_t distance) {
  for (const std::int64_t i : own_elements(items.count / 2)) {
    const std::int64_t a = first_of_pair(i, distance);
    compare(items.keys, items.positions, a, a + distance, goes_down(a, size, items.padded));
  }
}

// A block sorts one tile of kTile items: the steps with distances below kTile of all stages from
// `first_size` to `last_size`. Shared memory: kTile (8 + 4) bytes. Bound: latency of the steps.
__global__ void sort_tiles(Items items, std::int64_t first_size, std::int64_t last_size) {
  RINGRAD_SHARED(std::uint64_t, keys, [kTile]);
  RINGRAD_SHARED(std::int32_t, positions, [kTile]);
  const std::int64_t start = std::int64_t{blockIdx.x} * kTile;
  const std::int64_t length = std::min<std::int64_t>(kTile, items.count - start);
  for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
    keys[i] = items.keys[start + i];
    positions[i] = items.positions[start + i];
  }
  __syncthreads();  // the tile is complete
  for (std::int64_t size = first_size; size <= last_size; size *= 2) {
    for (std::int64_t distance = std::min<std::int64_t>(size, kTile) / 2; distance > 0;
         distance /= 2) {
      const std::int64_t a = first_of_pair(threadIdx.x, distance);
      if (a + distance < length)
        compare(keys, positions, a, a + distance, goes_down(start + a, size, items.padded));
      __syncthreads();  // all pairs of this step are in order
    }
  }
  for (std::int64_t i = threadIdx.x; i < length; i += kThreads) {
    items.keys[start + i] = keys[i];
    items.positions[start + i] = positions[i];
  }
}

// An element of the results per thread. Bound: latency of the reads by position.
template <class Element>
__global__ void take_items(Items items, Lines lines, std::int64_t k, const Element* x,
                           Element* values, std::int64_t* indices) {
  for (const std::int64_t i : own_elements(lines.count() * k)) {
    const std::int64_t inner = i % lines.inner, outer = i / lines.inner / k;
    const std::int64_t line = outer * lines.inner + inner;
    const std::int64_t position = items.positions[line * items.padded + i / lines.inner % k];
    values[i] = x[(outer * lines.n + position) * lines.inner + inner];
    indices[i] = position;
  }
}

}  // namespace

void sort(const Tensor& x, const Lines& lines, std::int64_t k, bool descending,
          const Sorted& sorted, Where where) {
  const Device device = x.device();
  const auto padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(lines.n)));
  const std::int64_t count = lines.count() * padded;
  const Tensor keys = empty({count}, {.dtype = DType::int64, .device = device}, where);
  const Tensor positions = empty({count}, {.dtype = DType::int32, .device = device}, where);
  const Items items{reinterpret_cast<std::uint64_t*>(keys.raw_data()),
                    positions.device_data<std::int32_t>(), padded, count};
  dispatch_dtype(x.dtype(), [&]<class T>() {
    launch_on(device, thread_per_element("make_items", count), where, make_items<T>,
              x.device_data<T>(), lines, descending, items);
  });
  const LaunchConfig tiles{
      .name = "sort_tiles", .grid = num_blocks(count, kTile), .block = kThreads};
  launch_on(device, tiles, where, sort_tiles, items, std::int64_t{2},
            std::min<std::int64_t>(padded, kTile));
  for (std::int64_t size = 2 * kTile; size <= padded; size *= 2) {
    for (std::int64_t distance = size / 2; distance >= kTile; distance /= 2)
      launch_on(device, thread_per_element("exchange", count / 2), where, exchange, items, size,
                distance);
    launch_on(device, tiles, where, sort_tiles, items, size, size);
  }
  dispatch_size(size_bytes(x.dtype()), [&]<class Element>() {
    launch_on(device, thread_per_element("take_items", sorted.values.numel()), where,
              take_items<Element>, items, lines, k, reinterpret_cast<const Element*>(x.raw_data()),
              reinterpret_cast<Element*>(sorted.values.raw_data()),
              sorted.indices.device_data<std::int64_t>());
  });
}

}  // namespace ringrad::kernels::cuda
