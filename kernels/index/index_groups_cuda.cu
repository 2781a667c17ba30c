// Grouping is a stable radix sort of the positions by their index, eight bits at a time from the
// lowest. One pass:
//
//     count_digits      each block counts the digits of its chunk        counts (block, digit)
//     scan_counts       finds where each block's elements with a digit begin    counts
//     scatter_digits    each element moves behind the earlier elements with its digit
//
// Within a block, consecutive parts of the chunk go to consecutive warps, and a warp takes 32
// elements at a time, in order. So equal digits keep their order, and the result does not depend on
// timing. The only atomics count integers.
//
// A group's sum is cut at every multiple of L in `order`, so that no thread adds more than about L
// elements, however many indices are equal:
//
//     order  |......jjjjjj|jjjjjjjjjjjj|jjj.........|       | every L positions
//                  sum      parts[1]     parts[2]           y[j] = sum + parts[1] + parts[2]

#include <algorithm>

#include "ringrad/kernels/divisor.h"
#include "ringrad/kernels/elementwise/map_cuda.cuh"
#include "ringrad/kernels/index/index_check.cuh"
#include "ringrad/kernels/index/index_groups_cuda.h"
#include "ringrad/kernels/per_element.cuh"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
static_assert(kDigits == kThreads);        // one thread per digit
constexpr std::int64_t kMostBlocks = 256;  // about two per multiprocessor of an H100

// -- Sorting --------------------------------------------------------------------------------------

// One index per thread. Bound: bandwidth.
template <class Index>
__global__ void keys_of_indices(const Index* indices, std::int64_t n, std::int64_t size,
                                std::int32_t* keys) {
  for (const std::int64_t i : own_elements(n))
    keys[i] = static_cast<std::int32_t>(in_bounds(indices[i], size) ? indices[i] : size);
}

// Elements [begin, end) of n. All chunks but the last have a multiple of 32 elements.
struct Chunk {
  std::int64_t begin, end;
};
__device__ Chunk chunk_of(std::int64_t n, std::int64_t chunk, std::int64_t number) {
  return {std::min(number * chunk, n), std::min((number + 1) * chunk, n)};
}

__device__ int digit_of(std::int32_t key, int shift) { return (key >> shift) % kDigits; }

// One chunk per block, one element per thread and iteration. Shared memory: 1 KiB. Bound:
// bandwidth.
__global__ void count_digits(const std::int32_t* keys, std::int64_t n, std::int64_t chunk,
                             int shift,
                             std::int32_t* counts) {  // (gridDim.x, kDigits)
  RINGRAD_SHARED(std::int32_t, count, [kDigits]);
  count[threadIdx.x] = 0;
  __syncthreads();  // all counts are 0
  const Chunk mine = chunk_of(n, chunk, blockIdx.x);
  for (std::int64_t i = mine.begin + threadIdx.x; i < mine.end; i += kThreads)
    atomicAdd(&count[digit_of(keys[i], shift)], 1);
  __syncthreads();  // all elements are counted
  counts[blockIdx.x * kDigits + threadIdx.x] = count[threadIdx.x];
}

/// The sum over this lane and all lower lanes.
__device__ std::int32_t warp_inclusive_sum(std::int32_t value) {
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned delta = 1; delta < kWarp; delta *= 2) {
    const std::int32_t lower = __shfl_up_sync(kAllLanes, value, delta);
    if (lane >= delta) value += lower;
  }
  return value;
}

// One block, one digit per thread: counts[b, d] becomes the number of elements with a lower digit,
// or with digit d in an earlier block. Shared memory: 32 bytes. Bound: latency.
__global__ void scan_counts(std::int32_t* counts, std::int32_t blocks) {
  RINGRAD_SHARED(std::int32_t, warp_totals, [kWarps]);
  const unsigned digit = threadIdx.x, warp = threadIdx.x / kWarp;
  std::int32_t total = 0;
#pragma unroll 8
  for (std::int32_t b = 0; b < blocks; ++b) total += counts[b * kDigits + digit];
  const std::int32_t sum = warp_inclusive_sum(total);
  if (threadIdx.x % kWarp == kWarp - 1) warp_totals[warp] = sum;
  __syncthreads();  // the sums over 32 digits are written
  std::int32_t place = sum - total;
  for (unsigned w = 0; w < warp; ++w) place += warp_totals[w];
#pragma unroll 8
  for (std::int32_t b = 0; b < blocks; ++b) {
    const std::int32_t count = counts[b * kDigits + digit];
    counts[b * kDigits + digit] = place;
    place += count;
  }
}

/// The lanes that have the same digit as this one.
__device__ unsigned lanes_with_digit(int digit, unsigned lanes) {
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool set = digit >> bit & 1;
    const unsigned votes = __ballot_sync(kAllLanes, set);
    lanes &= set ? votes : ~votes;
  }
  return lanes;
}

// One chunk per block, a part of it per warp, and one element per lane and iteration. Shared
// memory: 8 KiB. Bound: latency of a warp's iterations. A null `order` stands for 0, 1, 2, ...
__global__ void scatter_digits(const std::int32_t* keys, const std::int32_t* order, std::int64_t n,
                               std::int64_t chunk, int shift,
                               const std::int32_t* places,  // (gridDim.x, kDigits)
                               std::int32_t* keys_out, std::int32_t* order_out) {
  RINGRAD_SHARED(std::int32_t,
                 next, [kWarps][kDigits]);  // place of a warp's next element with a digit
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, digit = threadIdx.x;
  const Chunk block = chunk_of(n, chunk, blockIdx.x);
  const Chunk part = chunk_of(block.end - block.begin, chunk / kWarps, warp);
  const Chunk mine{block.begin + part.begin, block.begin + part.end};
  for (unsigned w = 0; w < kWarps; ++w) next[w][digit] = 0;
  __syncthreads();  // `next` is 0
  for (std::int64_t i = mine.begin + lane; i < mine.end; i += kWarp)
    atomicAdd(&next[warp][digit_of(keys[i], shift)], 1);
  __syncthreads();  // `next` counts each warp's digits
  std::int32_t place = places[blockIdx.x * kDigits + digit];
  for (unsigned w = 0; w < kWarps; ++w) {
    const std::int32_t count = next[w][digit];
    next[w][digit] = place;
    place += count;
  }
  __syncthreads();  // `next` holds where each warp's digits begin
  for (std::int64_t first = mine.begin; first < mine.end; first += kWarp) {
    const std::int64_t i = first + lane;
    const bool there = i < mine.end;
    const std::int32_t key = there ? keys[i] : 0;
    const int d = digit_of(key, shift);
    const unsigned equal = lanes_with_digit(d, __ballot_sync(kAllLanes, there));
    const int earlier = __popc(equal & ((1u << lane) - 1));
    const std::int32_t to = next[warp][d] + earlier;
    __syncwarp();  // all lanes have read `next`
    if (there) {
      keys_out[to] = key;
      order_out[to] = order != nullptr ? order[i] : static_cast<std::int32_t>(i);
      if (equal >> lane == 1) next[warp][d] = to + 1;  // the last with its digit
    }
    __syncwarp();  // `next` is up to date for the next 32
  }
}

// The first place of each group in the sorted keys, by binary search; one group per thread. Bound:
// latency.
__global__ void find_starts(const std::int32_t* keys, std::int32_t n, std::int32_t size,
                            std::int32_t* starts) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j > size) return;
  std::int32_t begin = 0, end = n;  // keys[begin - 1] < j <= keys[end]
  while (begin < end) {
    const std::int32_t middle = begin + (end - begin) / 2;
    if (keys[middle] < j)
      begin = middle + 1;
    else
      end = middle;
  }
  starts[j] = begin;
}

// -- Summing --------------------------------------------------------------------------------------

struct Members {
  const std::int32_t* order;               // (I)
  const std::int32_t* keys;                // (I)
  const std::int32_t* starts;              // (size + 1)
  std::int64_t num_indices, size, length;  // length: L
};

// The units that threads process: packs of V neighbours of (outer, rows, inner).
template <class Int>
struct Packs {
  Divisor<Int> packs, rows;
  std::int64_t n;

  struct At {
    Int outer, row, pack;
  };
  constexpr At at(std::int64_t number) const {
    const Int row = static_cast<Int>(number) / packs, outer = row / rows;
    return {outer, row - outer * rows, static_cast<Int>(number) - row * packs};
  }
};

/// sum += x[order[m], :] for m in [begin, end), in that order.
template <int V, class T>
__device__ void add_members(const T* x, std::int64_t inner, const std::int32_t* order,
                            std::int64_t begin, std::int64_t end, MathType<T> (&sum)[V]) {
#pragma unroll 4
  for (std::int64_t m = begin; m < end; ++m) {
    const auto values = *reinterpret_cast<const Pack<T, V>*>(x + order[m] * inner);
    for (int k = 0; k < V; ++k) sum[k] += values.values[k];
  }
}

// parts[o, c, :] = the sum of the members of a group that continues across the cut at c L, up to
// the next cut; not written if no group continues there. One pack per thread; rows count c. Bound:
// bandwidth.
template <int V, class T, class Int>
__global__ void sum_behind_cuts(Members members, Packs<Int> packs, const T* x, std::int64_t inner,
                                MathType<T>* parts) {
  for (const std::int64_t i : own_elements(packs.n)) {
    const auto at = packs.at(i);
    const std::int64_t cut = at.row * members.length;
    const std::int32_t group = members.keys[cut];
    if (at.row == 0 || group == members.size || members.keys[cut - 1] != group) continue;
    const std::int64_t end =
        std::min<std::int64_t>(members.starts[group + 1], cut + members.length);
    MathType<T> sum[V] = {};
    add_members<V>(x + at.outer * members.num_indices * inner + at.pack * V, inner, members.order,
                   cut, end, sum);
    for (int k = 0; k < V; ++k) parts[i * V + k] = sum[k];
  }
}

// One pack of y per thread; rows count groups. Bound: bandwidth.
template <int V, class T, class Out, class Int>
__global__ void sum_group_per_row(Members members, Packs<Int> packs, const T* x, std::int64_t inner,
                                  const MathType<T>* parts, std::int64_t excluded, bool onto,
                                  Out* y) {
  const std::int64_t cuts = (members.num_indices + members.length - 1) / members.length;
  for (const std::int64_t i : own_elements(packs.n)) {
    const auto at = packs.at(i);
    const std::int64_t begin = members.starts[at.row];
    const std::int64_t end = at.row == excluded ? begin : members.starts[at.row + 1];
    auto& out = reinterpret_cast<Pack<Out, V>*>(y)[i];
    MathType<T> sum[V] = {};
    if (onto)
      for (int k = 0; k < V; ++k) sum[k] = out.values[k];
    std::int64_t c = begin / members.length + 1;
    add_members<V>(x + at.outer * members.num_indices * inner + at.pack * V, inner, members.order,
                   begin, std::min(end, c * members.length), sum);
    for (; c * members.length < end; ++c)
      for (int k = 0; k < V; ++k) sum[k] += parts[(at.outer * cuts + c) * inner + at.pack * V + k];
    Pack<Out, V> result;
    for (int k = 0; k < V; ++k) result.values[k] = Out(sum[k]);
    out = result;
  }
}

// -- Host -----------------------------------------------------------------------------------------

constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();

Tensor empty_int32(std::int64_t n, const Tensor& like, Where where) {
  return empty({n}, {.dtype = DType::int32, .device = like.device()}, where);
}

// Makes the number of cuts about equal to the number of members between two cuts.
std::int64_t part_length(std::int64_t num_indices) {
  std::int64_t length = 64;
  while (length * length < num_indices) length *= 2;
  return length;
}

template <class Int>
Packs<Int> packs_of(std::int64_t outer, std::int64_t rows, std::int64_t packs) {
  return {static_cast<Int>(packs), static_cast<Int>(rows), outer * rows * packs};
}

template <int V, class T, class Out, class Int>
void sum(const Members& members, const Tensor& x, std::int64_t outer, std::int64_t inner,
         std::int64_t excluded, bool onto, const Tensor& y, Where where) {
  using Math = MathType<T>;
  const std::int64_t cuts = (members.num_indices + members.length - 1) / members.length;
  Tensor parts;
  if (cuts > 1) {
    parts = empty({outer * cuts * inner}, {.dtype = dtype_of<Math>, .device = x.device()}, where);
    const auto packs = packs_of<Int>(outer, cuts, inner / V);
    launch_on(x.device(), thread_per_element("sum_behind_cuts", packs.n), where,
              sum_behind_cuts<V, T, Int>, members, packs, x.device_data<T>(), inner,
              parts.device_data<Math>());
  }
  const auto packs = packs_of<Int>(outer, members.size, inner / V);
  launch_on(x.device(),
            thread_per_element("sum_groups", packs.n,
                               static_cast<double>(x.numel()) * sizeof(T) +
                                   static_cast<double>(y.numel()) * sizeof(Out)),
            where, sum_group_per_row<V, T, Out, Int>, members, packs, x.device_data<T>(), inner,
            cuts > 1 ? parts.device_data<Math>() : nullptr, excluded, onto, y.device_data<Out>());
}

}  // namespace

bool can_group(std::int64_t num_indices, std::int64_t size) {
  return num_indices <= kMostInt32 && size < kMostInt32;
}

IndexGroups group_indices(const Tensor& indices, std::int64_t size, Where where) {
  const std::int64_t n = indices.numel();
  const Tensor keys = empty_int32(n, indices, where);
  dispatch_index(indices.dtype(), [&]<class Index>() {
    launch_on(indices.device(), thread_per_element("keys_of_indices", n), where,
              keys_of_indices<Index>, indices.device_data<Index>(), n, size,
              keys.device_data<std::int32_t>());
  });
  return group_keys(keys, size, where);
}

IndexGroups group_keys(const Tensor& unsorted, std::int64_t size, Where where) {
  constexpr std::int64_t kPerThread = 8;
  const Device device = unsorted.device();
  const std::int64_t n = unsorted.numel();
  const std::int64_t blocks =
      std::min<std::int64_t>(num_blocks(n, kPerThread * kThreads), kMostBlocks);
  const std::int64_t chunk = ((n + blocks - 1) / blocks + kThreads - 1) / kThreads * kThreads;
  const auto grid = static_cast<unsigned>(blocks);
  const Tensor counts = empty_int32(kDigits * blocks, unsorted, where);
  const auto data = [](const Tensor& x) { return x.device_data<std::int32_t>(); };
  Tensor keys = unsorted, order;
  Tensor other_keys = empty_int32(n, unsorted, where), other_order;
  for (int shift = 0; size >> shift > 0; shift += kDigitBits) {
    if (!other_order.defined()) other_order = empty_int32(n, unsorted, where);
    launch_on(device, {.name = "count_digits", .grid = grid, .block = kThreads}, where,
              count_digits, data(keys), n, chunk, shift, data(counts));
    launch_on(device, {.name = "scan_counts", .grid = 1, .block = kThreads}, where, scan_counts,
              data(counts), static_cast<std::int32_t>(blocks));
    launch_on(device, {.name = "scatter_digits", .grid = grid, .block = kThreads}, where,
              scatter_digits, data(keys), order.defined() ? data(order) : nullptr, n, chunk, shift,
              data(counts), data(other_keys), data(other_order));
    std::swap(keys, other_keys);
    std::swap(order, other_order);
  }
  const Tensor starts = empty_int32(size + 1, unsorted, where);
  launch_on(device, thread_per_element("find_starts", size + 1), where, find_starts, data(keys),
            static_cast<std::int32_t>(n), static_cast<std::int32_t>(size), data(starts));
  return {order, keys, starts};
}

void sum_groups(const IndexGroups& groups, const Tensor& x, std::int64_t outer, std::int64_t inner,
                std::int64_t excluded, bool onto, const Tensor& y, Where where) {
  if (y.numel() == 0) return;
  const std::int64_t num_indices = groups.order.numel();
  const Members members{.order = groups.order.device_data<std::int32_t>(),
                        .keys = groups.keys.device_data<std::int32_t>(),
                        .starts = groups.starts.device_data<std::int32_t>(),
                        .num_indices = num_indices,
                        .size = groups.starts.numel() - 1,
                        .length = part_length(num_indices)};
  dispatch_floating(x.dtype(), [&]<class T>() {
    constexpr int V = 16 / sizeof(T);
    const bool small = std::max(y.numel(), outer * inner * num_indices) <= kMostInt32;
    const auto run = [&]<int kValues, class Out>() {
      small
          ? sum<kValues, T, Out, std::int32_t>(members, x, outer, inner, excluded, onto, y, where)
          : sum<kValues, T, Out, std::int64_t>(members, x, outer, inner, excluded, onto, y, where);
    };
    if (y.dtype() != x.dtype())
      run.template operator()<1, MathType<T>>();
    else if (inner % V == 0 && is_aligned(x, 16) && is_aligned(y, 16))
      run.template operator()<V, T>();
    else
      run.template operator()<1, T>();
  });
}

}  // namespace ringrad::kernels::cuda
