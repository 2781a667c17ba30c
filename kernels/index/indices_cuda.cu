#include <algorithm>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/kernels/index/index_check.cuh"
#include "ringrad/kernels/reduce/reduce.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 512;  // about as many as an H100 runs at once

struct Least {
  __device__ std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a < b ? a : b; }
};

// The position of the first bad index in [begin, end), or `end`. All threads of a block must call
// it, and all get the result.
template <class Index>
__device__ std::int64_t find_bad(const Index* indices, std::int64_t begin, std::int64_t end,
                                 const IsValid& is_valid,
                                 std::int64_t (&shared)[kThreads / kWarp]) {
  std::int64_t first = end;
  for (std::int64_t i = begin + threadIdx.x; i < end && first == end; i += kThreads)
    if (!is_valid(indices[i])) first = i;
  return block_reduce<kThreads>(first, Least(), shared);
}

// Each block checks `chunk` neighbours. A block that finds a bad index also checks all indices
// before its chunk. If one of those is bad, the block leaves the note to the block that checks it.
// So the good case, which must be fast, needs neither a second kernel nor memory. Shared memory: 64
// bytes. Bound: bandwidth.
template <class Index>
__global__ void check_chunk_per_block(const Index* indices, std::int64_t n, std::int64_t chunk,
                                      IsValid is_valid, BadIndex note, DeviceFault* fault) {
  RINGRAD_SHARED(std::int64_t, shared, [kThreads / kWarp]);
  const std::int64_t begin = blockIdx.x * chunk, end = Least()(begin + chunk, n);
  const std::int64_t first = find_bad(indices, begin, end, is_valid, shared);
  if (first == end) return;
  if (find_bad(indices, 0, begin, is_valid, shared) < begin) return;
  if (threadIdx.x > 0 ||
      atomicCAS(&fault->state, DeviceFault::kNone, DeviceFault::kInWriting) != DeviceFault::kNone)
    return;
  note.value = indices[first];
  note.position = first;
  fault->index = note;
  store_release_system(&fault->state, DeviceFault::kNoted);
}

}  // namespace

void check_indices(const Tensor& indices, const IsValid& is_valid, const BadIndex& note) {
  const std::int64_t n = indices.numel();
  if (n == 0) return;
  const std::int64_t blocks = std::min<std::int64_t>(num_blocks(n, 4 * kThreads), kMostBlocks);
  const Device device = indices.device();
  dispatch_index(indices.dtype(), [&]<class Index>() {
    launch_on(device,
              {.name = "check_indices",
               .grid = static_cast<unsigned>(blocks),
               .block = kThreads,
               .bytes = static_cast<double>(n) * sizeof(Index)},
              note.where, check_chunk_per_block<Index>, indices.device_data<Index>(), n,
              (n + blocks - 1) / blocks, is_valid, note, device_fault(device, note.where));
  });
}

}  // namespace ringrad::kernels::cuda
