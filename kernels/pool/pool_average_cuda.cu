// Average pooling on a GPU, as a ladder. Every kernel sums a window in an order that depends only
// on the shapes.
//
//     mean_thread_per_output<1>   one output per thread, any windows
//     mean_thread_per_output<V>   16 bytes of channels per thread
//     mean_warp_per_output        large windows of single-channel images, whose pixels are
//                                 neighbours: a warp reads 32 of them at a time
//     mean_block_per_pixel        large windows of many channels: 32 channels are neighbours, and
//                                 eight warps share the window's pixels

#include "ringrad/kernels/pool/pool_cuda.cuh"
#include "ringrad/kernels/pool/pool_windows.h"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kWarps = kPoolThreads / kWarp;

template <class T, class Int>
__device__ MathType<T> mean_factor(const Pool<Int>& pool, Int p, Int q) {
  using Math = MathType<T>;
  return Math{1} /
         (static_cast<Math>(pool.rows.count(p)) * static_cast<Math>(pool.columns.count(q)));
}

// Bound: bandwidth.
template <int kChannels, class T, class Int>
__global__ void mean_thread_per_output(Pool<Int> pool, const T* x, T* y) {
  for_each_group(pool, [&](const typename Pool<Int>::Group& at) {
    const auto& [image, p, q, group] = at;
    const Int h_end = pool.rows.end(p), w_begin = pool.columns.begin(q),
              w_end = pool.columns.end(q);
    MathType<T> sum[kChannels] = {};
    for (Int h = pool.rows.begin(p); h < h_end; ++h) {
      const T* row = x + pool.input(image, h, 0) + group * kChannels;
#pragma unroll 4
      for (Int w = w_begin; w < w_end; ++w) {
        const auto values = load_pack<kChannels>(row + w * pool.C);
        for (int k = 0; k < kChannels; ++k) sum[k] += values.values[k];
      }
    }
    const auto factor = mean_factor<T>(pool, p, q);
    Pack<T, kChannels> out;
    for (int k = 0; k < kChannels; ++k) out.values[k] = T(sum[k] * factor);
    store_pack(y + pool.output(image, p, q) + group * kChannels, out);
  });
}

// The sum of x[c], x[C + c], ... over every `step`-th pixel of a window in row-major order,
// starting at `first`.
template <class T, class Int>
__device__ MathType<T> sum_of_pixels(const Pool<Int>& pool, const T* x, Int image, Int p, Int q,
                                     Int first, Int step) {
  const Int h_begin = pool.rows.begin(p), w_begin = pool.columns.begin(q);
  const Int height = pool.rows.end(p) - h_begin, width = pool.columns.end(q) - w_begin;
  const Int rows_per_step = step / width, columns_per_step = step % width;
  MathType<T> sum = 0;
  Int r = first / width, s = first % width;
#pragma unroll 4
  for (Int i = first; i < height * width; i += step) {
    sum += x[pool.input(image, h_begin + r, w_begin + s)];
    r += rows_per_step;
    s += columns_per_step;
    if (s >= width) {
      s -= width;
      ++r;
    }
  }
  return sum;
}

// One output per warp and iteration; lane i reads pixels i, i + 32, ... and lane 0 writes.
// Bound: bandwidth.
// REQUIRES: C is 1
template <class T, class Int>
__global__ void mean_warp_per_output(Pool<Int> pool, const T* x, T* y) {
  const Int lane = threadIdx.x % kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps;
  std::int64_t i = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  for (; i < pool.groups; i += step) {
    const auto [image, p, q, c] = pool.group(i);
    const auto part = sum_of_pixels(pool, x, image, p, q, lane, static_cast<Int>(kWarp));
    const auto sum = warp_reduce(part, Plus());
    if (lane == 0) y[i] = T(sum * mean_factor<T>(pool, p, q));
  }
}

// 32 neighbouring channels of one window position per block: lane = channel, and warp
// i reads pixels i, i + 8, ...; warp 0 adds the parts and writes. Shared memory: 1 or 2 KiB.
// Bound: bandwidth.
// REQUIRES: the pool's groups have 32 channels, the last perhaps fewer
template <class T, class Int>
__global__ void mean_block_per_pixel(Pool<Int> pool, const T* x, T* y) {
  using Math = MathType<T>;
  RINGRAD_SHARED(Math, parts, [kWarps][kWarp]);
  const Int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const auto [image, p, q, group] = pool.group(blockIdx.x);
  const Int c = group * static_cast<Int>(kWarp) + lane;
  const bool mine = c < pool.C;
  parts[warp][lane] =
      mine ? sum_of_pixels(pool, x + c, image, p, q, warp, static_cast<Int>(kWarps)) : Math{0};
  __syncthreads();  // all parts are written
  if (mine && warp == 0) {
    Math sum = 0;
    for (int k = 0; k < kWarps; ++k) sum += parts[k][lane];
    y[pool.output(image, p, q) + c] = T(sum * mean_factor<T>(pool, p, q));
  }
}

// One group of inputs per thread. The thread adds its shares of all windows that contain the group,
// in row-major order. Bound: bandwidth.
template <int kPixels, int kChannels, class T, class Int>
__global__ void sum_of_shares(Pool<Int> pool, const T* grad_y, T* grad_x) {
  for_each_group(pool, [&](const typename Pool<Int>::Group& at) {
    const Int h = at.row, w0 = at.column * kPixels, c = at.channel * kChannels;
    const Int p_begin = pool.rows.first_output(h), p_end = pool.rows.end_output(h);
    Pack<T, kPixels * kChannels> out;
#pragma unroll
    for (int j = 0; j < kPixels; ++j) {
      const Int q_begin = pool.columns.first_output(w0 + j),
                q_end = pool.columns.end_output(w0 + j);
      MathType<T> sum[kChannels] = {};
      for (Int p = p_begin; p < p_end; ++p) {
        for (Int q = q_begin; q < q_end; ++q) {
          const auto grads = load_pack<kChannels>(grad_y + pool.output(at.image, p, q) + c);
          const auto factor = mean_factor<T>(pool, p, q);
          for (int k = 0; k < kChannels; ++k) sum[k] += factor * grads.values[k];
        }
      }
      for (int k = 0; k < kChannels; ++k) out.values[j * kChannels + k] = T(sum[k]);
    }
    store_pack(grad_x + pool.input(at.image, h, w0) + c, out);
  });
}

double bytes_of(const Tensor& x, const Tensor& y) {
  return static_cast<double>(x.numel() + y.numel()) * static_cast<double>(size_bytes(x.dtype()));
}

// Number of inputs in the largest window.
std::int64_t window_size(const PoolGeometry& g) {
  const auto length = [](const PoolWindows<std::int64_t>& windows) {
    return windows.is_adaptive() ? (windows.extent + windows.outputs - 1) / windows.outputs
                                 : std::min<std::int64_t>(windows.kernel, windows.extent);
  };
  return length(g.rows) * length(g.columns);
}

}  // namespace

void avg_pool(const PoolGeometry& g, const Tensor& x, const Tensor& y, Where where) {
  if (g.num_outputs() == 0) return;
  constexpr std::int64_t kLarge = 64;  // two iterations of a warp
  dispatch_floating(x.dtype(), [&]<class T>() {
    const auto thread_per_output = [&]<class Int, int kChannels>() {
      launch_groups("avg_pool", x.device(), groups_of_outputs<Int>(g, kChannels), bytes_of(x, y),
                    where, mean_thread_per_output<kChannels, T, Int>, x.device_data<T>(),
                    y.device_data<T>());
    };
    const auto threads_per_output = [&](std::int64_t blocks, auto kernel, const auto& pool) {
      launch_on(x.device(),
                {.name = "avg_pool",
                 .grid = num_blocks(blocks, 1),
                 .block = kPoolThreads,
                 .bytes = bytes_of(x, y)},
                where, kernel, pool, x.device_data<T>(), y.device_data<T>());
    };
    if (!fits_int32(g)) return thread_per_output.template operator()<std::int64_t, 1>();
    using Int = std::int32_t;
    constexpr int V = 16 / sizeof(T);
    if (window_size(g) >= kLarge && g.C == 1) {
      const auto pool = groups_of_outputs<Int>(g, 1);
      threads_per_output((pool.groups + kWarps - 1) / kWarps, mean_warp_per_output<T, Int>, pool);
    } else if (window_size(g) >= kLarge) {
      const auto pool = groups_of_outputs<Int>(g, kWarp);
      threads_per_output(pool.groups, mean_block_per_pixel<T, Int>, pool);
    } else if (g.C % V == 0 && is_aligned(x, 16)) {
      thread_per_output.template operator()<Int, V>();
    } else {
      thread_per_output.template operator()<Int, 1>();
    }
  });
}

void avg_pool_backward(const PoolGeometry& g, const Tensor& grad_y, const Tensor& grad_x,
                       Where where) {
  if (g.num_inputs() == 0) return;
  dispatch_floating(grad_y.dtype(), [&]<class T>() {
    const auto run = [&]<class Int, int kPixels, int kChannels>() {
      launch_groups("avg_pool_backward", grad_y.device(),
                    groups_of_inputs<Int>(g, kPixels, kChannels), bytes_of(grad_y, grad_x), where,
                    sum_of_shares<kPixels, kChannels, T, Int>, grad_y.device_data<T>(),
                    grad_x.device_data<T>());
    };
    constexpr int V = 16 / sizeof(T);
    if (!fits_int32(g)) return run.template operator()<std::int64_t, 1, 1>();
    if (g.C % V == 0 && is_aligned(grad_y, 16))
      return run.template operator()<std::int32_t, 1, V>();
    if (g.C == 1 && g.W() % V == 0) return run.template operator()<std::int32_t, V, 1>();
    run.template operator()<std::int32_t, 1, 1>();
  });
}

}  // namespace ringrad::kernels::cuda
