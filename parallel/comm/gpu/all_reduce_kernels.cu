#include <algorithm>
#include <type_traits>

#include "ringrad/core/gpu/cuda_check.h"
#include "ringrad/core/gpu/launch.h"
#include "ringrad/core/gpu/pack.h"
#include "ringrad/parallel/comm/blocks/reduce_functors.h"
#include "ringrad/parallel/comm/gpu/all_reduce_kernels.h"

namespace ringrad::cuda {
namespace {

struct Range {
  std::int64_t begin, end;
};

// The elements of part `part` of `parts` equal ones, in whole packs of V.
template <int V>
__device__ Range part_of(Range whole, int parts, int part) {
  const std::int64_t packs = (whole.end - whole.begin + V - 1) / V;
  const auto bound = [&](std::int64_t p) {
    const std::int64_t element = whole.begin + packs * p / parts * V;
    return element < whole.end ? element : whole.end;
  };
  return {bound(part), bound(part + 1)};
}

// Calls f(i, n) for each pack of n elements at i; only the last pack of a tensor has less than V.
template <int V, class Function>
__device__ void for_packs(Range range, Function f) {
  for (std::int64_t i = range.begin + std::int64_t{threadIdx.x} * V; i < range.end;
       i += std::int64_t{blockDim.x} * V)
    f(i, range.end - i < V ? static_cast<int>(range.end - i) : V);
}

template <int V, class T>
__device__ Pack<T, V> load(const T* from, int n) {
  if (n == V && reinterpret_cast<std::uintptr_t>(from) % sizeof(Pack<T, V>) == 0)
    return *reinterpret_cast<const Pack<T, V>*>(from);
  Pack<T, V> pack{};
  for (int k = 0; k < V; ++k)
    if (k < n) pack.values[k] = from[k];  // V rounds, unrolled: the pack stays in registers
  return pack;
}

template <int V, class T>
__device__ void store(T* to, const Pack<T, V>& pack, int n) {
  if (n == V && reinterpret_cast<std::uintptr_t>(to) % sizeof(Pack<T, V>) == 0) {
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
    return;
  }
  for (int k = 0; k < V; ++k)
    if (k < n) to[k] = pack.values[k];
}

// --- Waiting for other ranks ---

__device__ void give_up(const KernelCall& call, int peer, bool aborted) {
  store_release_system(call.abort, std::uint64_t{1});
  if (atomicCAS(&call.note->state, LateNote::kNone, LateNote::kInWriting) != LateNote::kNone)
    return;
  call.note->late = call.late;
  call.note->late.peer = call.names[peer];
  call.note->late.aborted = aborted;
  store_release_system(&call.note->state, LateNote::kNoted);
}

__device__ bool await_flag(const KernelCall& call, const std::uint64_t* flag, std::uint64_t value,
                           int peer) {
  const std::uint64_t begin = global_time_ns();
  for (unsigned round = 1; load_acquire_system(flag) < value; ++round) {
    __nanosleep(20);
    if (round % 16 != 0) continue;
    const bool aborted = load_acquire_system(call.abort) != 0;
    if (!aborted && global_time_ns() - begin < call.deadline_ns) continue;
    give_up(call, peer, aborted);
    return false;
  }
  return true;
}

__device__ std::uint64_t flag_value(const KernelCall& call, int phase) {
  return call.number * kPhases + static_cast<std::uint64_t>(phase);
}

// Raises this rank's flag of this block at `peer`. REQUIRES: a barrier of the block after what the
// flag tells of
__device__ void raise_flag(const KernelCall& call, int peer, int phase) {
  store_release_system(&call.mailboxes[peer]->flags[blockIdx.x][call.rank],
                       flag_value(call, phase));
}

// Block b of every rank has come to this phase, and its mail is there. False, for all threads, if
// one did not.
__device__ bool meet_all(const KernelCall& call, int phase) {
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  bool came = true;
  if (peer < call.world_size && peer != call.rank) {
    raise_flag(call, peer, phase);
    came = await_flag(call, &call.mailboxes[call.rank]->flags[blockIdx.x][peer],
                      flag_value(call, phase), peer);
  }
  return __syncthreads_and(came) != 0;
}

template <class T>
__device__ T* mail_of(const KernelCall& call, int rank) {
  auto* first = reinterpret_cast<std::byte*>(call.mailboxes[rank] + 1);
  return reinterpret_cast<T*>(first + call.number % 2 * mailbox_half(call.capacity));
}

// --- Sums ---

template <class Math>
__device__ Math divided(Math value, int divisor) {
  if constexpr (std::is_floating_point_v<Math>)
    if (divisor != 1) return value / static_cast<Math>(divisor);
  return value;
}

// The elements at i of all ranks' mail, in the order of rank, rounded once.
template <int V, class T, class Op>
__device__ Pack<T, V> sum_of_mail(const KernelCall& call, std::int64_t i, int n, int divisor,
                                  Op op) {
  using Math = MathType<T>;
  Math sum[V] = {};
  for (int rank = 0; rank < call.world_size; ++rank) {
    const Pack<T, V> term = load<V>(mail_of<T>(call, rank) + i, n);
    for (int k = 0; k < V; ++k) {
      const Math value = static_cast<Math>(term.values[k]);
      sum[k] = rank == 0 ? value : op(sum[k], value);
    }
  }
  Pack<T, V> result;
  for (int k = 0; k < V; ++k) result.values[k] = T(divided(sum[k], divisor));
  return result;
}

// --- Kernels: block b works on slice b. Bound: the links, or for little data how long a flag takes
// ---

template <class T, class Op>
__global__ void __launch_bounds__(kMaxKernelThreads, 1)
    one_shot_all_reduce(const __grid_constant__ KernelCall call, T* data, std::int64_t count,
                        int divisor, Op op) {
  constexpr int V = 16 / sizeof(T);
  const Range slice = part_of<V>({0, count}, gridDim.x, blockIdx.x);
  T* own = mail_of<T>(call, call.rank);
  for_packs<V>(slice, [&](std::int64_t i, int n) { store<V>(own + i, load<V>(data + i, n), n); });
  if (!meet_all(call, 1)) return;
  for_packs<V>(slice, [&](std::int64_t i, int n) {
    store<V>(data + i, sum_of_mail<V, T>(call, i, n, divisor, op), n);
  });
}

template <class T, class Op>
__global__ void __launch_bounds__(kMaxKernelThreads, 1)
    two_shot_all_reduce(const __grid_constant__ KernelCall call, T* data, std::int64_t count,
                        int divisor, Op op) {
  constexpr int V = 16 / sizeof(T);
  const Range slice = part_of<V>({0, count}, gridDim.x, blockIdx.x);
  const std::size_t results = (count + V - 1) / V * V;  // after the inputs, aligned as they are
  T* own = mail_of<T>(call, call.rank);
  for_packs<V>(slice, [&](std::int64_t i, int n) { store<V>(own + i, load<V>(data + i, n), n); });
  if (!meet_all(call, 1)) return;
  const Range part = part_of<V>(slice, call.world_size, call.rank);
  for_packs<V>(part, [&](std::int64_t i, int n) {
    store<V>(own + results + i, sum_of_mail<V, T>(call, i, n, divisor, op), n);
  });
  if (!meet_all(call, 2)) return;
  for (int rank = 0; rank < call.world_size; ++rank) {
    const T* theirs = mail_of<T>(call, rank) + results;
    for_packs<V>(part_of<V>(slice, call.world_size, rank),
                 [&](std::int64_t i, int n) { store<V>(data + i, load<V>(theirs + i, n), n); });
  }
}

// Sums travel as Math, unrounded. Step s of 2 (n - 1) has a place of its own in the next rank's
// mail for each part, so no rank waits for a place to become free: the first round's places, then
// the second's.
template <class T, class Op>
__global__ void __launch_bounds__(kMaxKernelThreads, 1)
    ring_all_reduce(const __grid_constant__ KernelCall call, T* data, std::int64_t count,
                    int divisor, Op op) {
  using Math = MathType<T>;
  constexpr int V = 16 / sizeof(T);
  const int n = call.world_size;
  const int next = (call.rank + 1) % n, previous = (call.rank + n - 1) % n;
  const Range slice = part_of<V>({0, count}, gridDim.x, blockIdx.x);
  const std::size_t round_size = (count + V - 1) / V * V;
  const Math* received = mail_of<Math>(call, call.rank);
  Math* sent = mail_of<Math>(call, next);
  // The part that comes in step s goes out in step s + 1.
  for (int step = 0; step < 2 * n - 1; ++step) {
    const Range part = part_of<V>(slice, n, (call.rank + 2 * n - step) % n);
    const bool is_last = step == 2 * n - 2;
    if (step > 0) {
      bool came = true;
      if (threadIdx.x == 0)
        came = await_flag(call, &call.mailboxes[call.rank]->flags[blockIdx.x][previous],
                          flag_value(call, step), previous);
      if (__syncthreads_and(came) == 0) return;
    }
    const std::size_t from = step <= n - 1 ? 0 : round_size;  // where step - 1 put it
    const std::size_t to = step < n - 1 ? 0 : round_size;
    for_packs<V>(part, [&](std::int64_t i, int size) {
      for (int k = 0; k < size; ++k) {
        Math value{};
        if (step > 0) value = received[from + i + k];
        if (step < n) {
          const Math own = static_cast<Math>(data[i + k]);
          value = step == 0 ? own : op(value, own);
        }
        if (step == n - 1) value = static_cast<Math>(T(divided(value, divisor)));
        if (step >= n - 1) data[i + k] = T(value);
        if (!is_last) sent[to + i + k] = value;
      }
    });
    __syncthreads();
    if (threadIdx.x == 0 && !is_last) raise_flag(call, next, step + 1);
  }
}

// --- Host ---

template <class T, class Op>
auto kernel_of(DeviceAlgorithm algorithm) {
  if (algorithm == DeviceAlgorithm::one_shot_kernel) return one_shot_all_reduce<T, Op>;
  if (algorithm == DeviceAlgorithm::two_shot_kernel) return two_shot_all_reduce<T, Op>;
  RINGRAD_ASSERT(algorithm == DeviceAlgorithm::ring_kernel);
  return ring_all_reduce<T, Op>;
}

// Calls body.operator()<T, Op>() for what the two names mean.
template <class Body>
void dispatch(DType dtype, ReduceOp op, Body body) {
  dispatch_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      RINGRAD_ASSERT(dtype != DType::bool_);
    } else {
      dispatch_reduce(op, [&]<class Op>(Op) { body.template operator()<T, Op>(); });
    }
  });
}

constexpr DeviceAlgorithm kAlgorithms[] = {DeviceAlgorithm::one_shot_kernel,
                                           DeviceAlgorithm::two_shot_kernel,
                                           DeviceAlgorithm::ring_kernel};

}  // namespace

std::size_t bytes_in_mailbox(DeviceAlgorithm algorithm, DType dtype, std::int64_t count) {
  const auto padded = static_cast<std::size_t>(count) + 16;
  if (algorithm == DeviceAlgorithm::ring_kernel) return 2 * padded * size_bytes(math_dtype(dtype));
  return (algorithm == DeviceAlgorithm::two_shot_kernel ? 2 : 1) * padded * size_bytes(dtype);
}

int kernel_threads() { return is_cuda_simulated() ? 64 : kMaxKernelThreads; }

int max_resident_blocks(Device device, Where where) {
  const DeviceGuard guard(device, where);
  cudaDeviceProp properties;
  RINGRAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index), where);
  int least = kMaxKernelBlocks;
  for (int d = 0; d < kNumDTypes; ++d)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max})
      for (const DeviceAlgorithm algorithm : kAlgorithms) {
        if (static_cast<DType>(d) == DType::bool_) continue;
        dispatch(static_cast<DType>(d), op, [&]<class T, class Op>() {
          int blocks = 0;
          RINGRAD_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                 &blocks, kernel_of<T, Op>(algorithm), kernel_threads(), 0),
                             where);
          least = std::min(least, blocks * properties.multiProcessorCount);
        });
      }
  return least;
}

void launch_all_reduce(const Stream& stream, DeviceAlgorithm algorithm, const KernelCall& call,
                       DType dtype, ReduceOp op, std::byte* data, std::int64_t count, int blocks,
                       bool is_alone, Where where) {
  const StreamGuard guard(stream);
  const int divisor = op == ReduceOp::mean ? call.world_size : 1;
  const LaunchConfig config{.name = "all_reduce",
                            .grid = static_cast<unsigned>(blocks),
                            .block = static_cast<unsigned>(kernel_threads()),
                            .cooperative = is_alone,
                            .bytes = 3.0 * count * size_bytes(dtype)};
  dispatch(dtype, op, [&]<class T, class Op>() {
    launch_on(stream.device(), config, where, kernel_of<T, Op>(algorithm), call,
              reinterpret_cast<T*>(data), count, divisor, Op{});
  });
}

}  // namespace ringrad::cuda
