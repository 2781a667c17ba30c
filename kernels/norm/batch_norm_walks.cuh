// Two ways for a GPU to traverse a tensor of channels in place. Private to kernels/norm.
//
//     stripes    channels are neighbours:  0 1 2 0 1 2 0 1 2 0 1 2 ...
//                                          |--- stripe ----|---
//                a stripe is about 32 packs wide, a whole number of packs: 3 channels keep as many
//                threads busy as 512 do. A thread always sees the same columns, so it loads their
//                parameters once.
//
//     planes     a channel has planes of neighbours, one per example: 000..0 111..1 222..2 000..0
//                a block processes one channel only.
//
// An Op defines the work at each value:
//
//     Op(args, c)                  at the first value of channel c: loads the channel's parameters
//     op.take(x, residual, grad)   if Op::kReduces: adds a value to op.sums, a Pair
//     op(x, residual, grad)        else: returns the result; turns grad into residual's gradient
//     Op::kHasResidual             true if there is a residual; it is 0 otherwise
//     Op::kHasGradient             true if there is a grad; it is 0 otherwise
//
// Walks with kReduces write sums per block and column; sum_channels adds these in float64. The
// order of addition depends only on shapes.

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/reduce/rows.cuh"

namespace ringrad::kernels::cuda {

inline constexpr int kWalkThreads = 256;
inline constexpr int kStripeLanes = 32;                          // threads side by side
inline constexpr int kStripeRows = kWalkThreads / kStripeLanes;  // stripes of a block at a time
inline constexpr int kFinishThreads = 128;
inline constexpr int kAtOnce = 2;  // packs that a thread loads before using them

/// The extents of a walk over x(outer, C, inner); inner is 1 in stripes.
struct Walk {
  std::int64_t outer, C, inner;
  std::int64_t width;  // of a stripe, in elements; of the sums: width columns of channel column % C
  int plane_threads;   // that share a plane, a power of two; 0 in stripes
};

/// Loads kAtOnce packs, `step` apart, and applies the Ops to their elements: one Op per element of
/// a pack, or one for all.
template <class Op, int kOps, class T, class Args>
__device__ void visit_packs(const Args& args, const Row<T>& row, std::int64_t pack,
                            std::int64_t step, Op (&ops)[kOps]) {
  using Math = MathType<T>;
  constexpr int V = kPack<T>;
  Math x[kAtOnce][V], residual[kAtOnce][V] = {}, grad[kAtOnce][V] = {};
#pragma unroll
  for (int u = 0; u < kAtOnce; ++u) {
    row.load(args.x, pack + u * step, Math{0}, x[u]);
    if constexpr (Op::kHasResidual) row.load(args.residual, pack + u * step, Math{0}, residual[u]);
    if constexpr (Op::kHasGradient) row.load(args.grad, pack + u * step, Math{0}, grad[u]);
  }
#pragma unroll
  for (int u = 0; u < kAtOnce; ++u) {
    if constexpr (Op::kReduces) {
      const bool whole = row.is_whole(pack + u * step);
#pragma unroll
      for (int i = 0; i < V; ++i)
        if (whole || row.holds(pack + u * step, i))
          ops[kOps == 1 ? 0 : i].take(x[u][i], residual[u][i], grad[u][i]);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i)
        x[u][i] = ops[kOps == 1 ? 0 : i](x[u][i], residual[u][i], grad[u][i]);
      row.store(args.out, pack + u * step, x[u]);
      if constexpr (Op::kHasResidual && Op::kHasGradient)
        row.store(args.grad_residual, pack + u * step, grad[u]);
    }
  }
}

template <class Math>
__device__ Pair<double> in_float64(const Pair<Math>& sums) {
  return {static_cast<double>(sums.first), static_cast<double>(sums.second)};
}

// Thread (x, y) of block (i, j) processes pack i * kStripeLanes + x of the y-th stripe in every
// gridDim.y-th group of kStripeRows stripes. Shared memory, if Op reduces: two doubles per thread
// and element of a pack.
template <class Op, class T, class Args>
__global__ void __launch_bounds__(kWalkThreads, 2)
    walk_stripes(Walk walk, Args args, Pair<double>* sums) {
  constexpr int V = kPack<T>;
  const unsigned x = threadIdx.x % kStripeLanes, y = threadIdx.x / kStripeLanes;
  const std::int64_t packs = walk.width / V, own = std::int64_t{blockIdx.x} * kStripeLanes + x;
  const Row<T> all(0, walk.outer * walk.C);
  Op ops[V];
  std::int64_t c = own * V % walk.C;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    ops[i] = Op(args, c);
    c = c + 1 == walk.C ? 0 : c + 1;
  }
  const std::int64_t step = std::int64_t{gridDim.y} * kStripeRows * packs;
  const std::int64_t first = (std::int64_t{blockIdx.y} * kStripeRows + y) * packs + own;
  for (std::int64_t pack = first; own < packs && pack < all.packs(); pack += kAtOnce * step)
    visit_packs(args, all, pack, step, ops);
  if constexpr (Op::kReduces) {
    RINGRAD_SHARED(Pair<double>, shared, [kStripeRows][V][kStripeLanes]);
#pragma unroll
    for (int i = 0; i < V; ++i) shared[y][i][x] = in_float64(ops[i].sums);
    __syncthreads();  // the sums of all stripes are written
    for (unsigned i = y; i < V; i += kStripeRows) {
      Pair<double> total = shared[0][i][x];
      for (int other = 1; other < kStripeRows; ++other) total = total + shared[other][i][x];
      if (own < packs) sums[blockIdx.y * walk.width + own * V + i] = total;
    }
  }
}

// Block (c, j, k) processes every gridDim.y-th group of planes of channel c, and in them every
// gridDim.z-th group of packs. Shared memory, if Op reduces: two doubles per warp.
template <class Op, class T, class Args>
__global__ void __launch_bounds__(kWalkThreads, 2)
    walk_planes(Walk walk, Args args, Pair<double>* sums) {
  const std::int64_t c = blockIdx.x;
  const unsigned threads = static_cast<unsigned>(walk.plane_threads),
                 planes = kWalkThreads / threads;
  const std::int64_t step = std::int64_t{gridDim.z} * threads;
  Op op[1] = {Op(args, c)};
  for (std::int64_t b = std::int64_t{blockIdx.y} * planes + threadIdx.x / threads; b < walk.outer;
       b += std::int64_t{gridDim.y} * planes) {
    const Row<T> plane((b * walk.C + c) * walk.inner, walk.inner);
    for (std::int64_t pack = std::int64_t{blockIdx.z} * threads + threadIdx.x % threads;
         pack < plane.packs(); pack += kAtOnce * step)
      visit_packs(args, plane, pack, step, op);
  }
  if constexpr (Op::kReduces) {
    RINGRAD_SHARED(Pair<double>, shared, [kWalkThreads / kWarp]);
    const Pair<double> total = block_reduce<kWalkThreads>(in_float64(op[0].sums), Plus(), shared);
    if (threadIdx.x == 0)
      sums[(std::int64_t{blockIdx.y} * gridDim.z + blockIdx.z) * walk.C + c] = total;
  }
}

// Block c adds (blocks, width) sums over the columns of channel c, and passes the total to
// Op::finish. Shared memory: two doubles per warp.
template <class Op, class Args>
__global__ void sum_channels(Walk walk, Args args, const Pair<double>* sums, std::int64_t blocks) {
  RINGRAD_SHARED(Pair<double>, shared, [kFinishThreads / kWarp]);
  const std::int64_t c = blockIdx.x, columns = walk.width / walk.C;
  Pair<double> total{0, 0};
  for (std::int64_t i = threadIdx.x; i < blocks * columns; i += kFinishThreads)
    total = total + sums[i / columns * walk.width + i % columns * walk.C + c];
  total = block_reduce<kFinishThreads>(total, Plus(), shared);
  if (threadIdx.x == 0) Op::finish(args, c, total);
}

// -- Host -----------------------------------------------------------------------------------------

/// The walk over x. REQUIRES: x is contiguous or channels_last, without gaps
template <class T>
Walk walk_of(const Tensor& x) {
  const std::int64_t C = x.shape()[1], V = kPack<T>;
  if (C == 1 || x.strides()[1] == 1) {
    const std::int64_t whole = V / std::gcd(C, V);  // this many rows fill whole packs
    const std::int64_t rows = std::max(whole, kStripeLanes * V / C / whole * whole);
    return {x.numel() / C, C, 1, rows * C, 0};
  }
  const std::int64_t outer = x.shape()[0], inner = x.numel() / outer / C;
  int threads = 1;
  while (threads < kWalkThreads && threads < packs_per_row<T>(inner)) threads *= 2;
  return {outer, C, inner, C, threads};
}

/// The grid of a walk: about `most` blocks, if there is enough work.
template <class T>
dim3 blocks_of(const Walk& walk, std::int64_t most) {
  const auto share = [](std::int64_t work, std::int64_t per_block, std::int64_t most_blocks) {
    const std::int64_t blocks = (work + per_block - 1) / per_block;
    return static_cast<unsigned>(
        std::clamp<std::int64_t>(most_blocks, 1, std::min<std::int64_t>(blocks, 65535)));
  };
  if (walk.plane_threads == 0) {
    const std::int64_t stripes = (walk.outer * walk.C + walk.width - 1) / walk.width;
    const unsigned x = num_blocks(walk.width / kPack<T>, kStripeLanes);
    return {x, share(stripes, 4 * kStripeRows, most / x)};
  }
  const unsigned y =
      share(walk.outer, kWalkThreads / walk.plane_threads, (most + walk.C - 1) / walk.C);
  const unsigned z =
      share(packs_per_row<T>(walk.inner), 4 * walk.plane_threads, most / (walk.C * y));
  return {static_cast<unsigned>(walk.C), y, z};
}

/// Queues the walk, and then sum_channels if Op reduces. The walk moves `tensors` times the bytes
/// of x.
template <class Op, class T, class Args>
void run_walk(const char* name, const Tensor& x, const Args& args, int tensors, Where where) {
  const Walk walk = walk_of<T>(x);
  const dim3 grid =
      blocks_of<T>(walk, Op::kReduces ? 528 : 2112);  // 4 or 16 per multiprocessor of an H100
  const LaunchConfig config{
      .name = name, .grid = grid, .block = kWalkThreads, .bytes = tensors * bytes_of(x)};
  const bool planes = walk.plane_threads > 0;
  const std::int64_t blocks = std::int64_t{grid.y} * (planes ? grid.z : 1);
  Tensor sums;
  if (Op::kReduces)
    sums = empty({blocks, walk.width, 2}, {.dtype = DType::float64, .device = x.device()}, where);
  auto* to = Op::kReduces ? reinterpret_cast<Pair<double>*>(sums.device_data<double>()) : nullptr;
  launch_on(x.device(), config, where,
            planes ? walk_planes<Op, T, Args> : walk_stripes<Op, T, Args>, walk, args, to);
  if constexpr (Op::kReduces)
    launch_on(x.device(),
              {.name = "sum_channels",
               .grid = static_cast<unsigned>(walk.C),
               .block = kFinishThreads,
               .bytes = bytes_of(sums)},
              where, sum_channels<Op, Args>, walk, args, to, blocks);
}

}  // namespace ringrad::kernels::cuda
