// Softmax on a GPU, as a ladder. A row is one softmax's input: `size` elements, `stride` apart.
//
//     softmax_rows_side_by_side    one or several threads per row: any stride
//     softmax_block_per_row        rows of neighbours, one block each: accesses 16 bytes at a time
//     softmax_in_registers         rows that fit into the registers of their threads: read once,
//                                  without barriers if the threads are lanes of one warp
//
// The four operators differ in how they reduce a row (row statistics below). All are bound by
// bandwidth.

#include <array>
#include <cmath>
#include <type_traits>

#include "ringrad/kernels/loss/exp_sum.cuh"
#include "ringrad/kernels/loss/softmax.h"
#include "ringrad/kernels/reduce/rows.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;       // of blocks with rows side by side
constexpr int kLongThreads = 1024;  // of blocks that traverse one row

// -- Row statistics of the four operators: a state that collects all elements of a row, and the
//    result of each element. kPad does not change a state.

template <class Math>
struct Forward {
  static constexpr int kInputs = 1;
  static constexpr Math kPad = -kInfinity<Math>;
  using State = ExpSum<Math>;
  using Merge = MergeExpSums;
  static __device__ State nothing() { return State::nothing(); }
  template <int V>
  static __device__ void take(State& state, const Math (&x)[1][V]) {
    state.take(x[0]);
  }
};

template <class Math>
struct Softmax : Forward<Math> {
  explicit __device__ Softmax(const ExpSum<Math>& row) : maximum(row.maximum), scale(1 / row.sum) {}
  __device__ Math operator()(Math x) const { return std::exp(x - maximum) * scale; }
  Math maximum, scale;
};

template <class Math>
struct LogSoftmax : Forward<Math> {
  explicit __device__ LogSoftmax(const ExpSum<Math>& row)
      : maximum(row.maximum), log_sum(std::log(row.sum)) {}
  __device__ Math operator()(Math x) const { return x - maximum - log_sum; }
  Math maximum, log_sum;
};

template <class Math>
struct Backward {
  static constexpr int kInputs = 2;  // grad_output, y
  static constexpr Math kPad = 0;
  using State = Math;
  using Merge = Plus;
  static __device__ State nothing() { return 0; }
};

template <class Math>
struct SoftmaxBackward : Backward<Math> {
  template <int V>
  static __device__ void take(Math& sum, const Math (&in)[2][V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum += in[0][i] * in[1][i];
  }
  explicit __device__ SoftmaxBackward(Math sum) : sum(sum) {}
  __device__ Math operator()(Math grad, Math y) const { return y * (grad - sum); }
  Math sum;
};

template <class Math>
struct LogSoftmaxBackward : Backward<Math> {
  template <int V>
  static __device__ void take(Math& sum, const Math (&in)[2][V]) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum += in[0][i];
  }
  explicit __device__ LogSoftmaxBackward(Math sum) : sum(sum) {}
  __device__ Math operator()(Math grad, Math y) const { return grad - std::exp(y) * sum; }
  Math sum;
};

// out[i] = op(element i of each input)
template <class Op, class Math, int V>
__device__ void compute(const Op& op, const Math (&in)[Op::kInputs][V], Math (&out)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if constexpr (Op::kInputs == 1)
      out[i] = op(in[0][i]);
    else
      out[i] = op(in[0][i], in[1][i]);
  }
}

template <class T, int N>
struct Inputs {
  const T* data[N];
};

// -- Kernels --------------------------------------------------------------------------------------

// Thread (x, y) processes elements y, y + blockDim.y ... of row blockIdx.x * blockDim.x + x;
// neighbouring threads read neighbouring rows, four elements at a time. Shared memory: kThreads
// states.
template <class Op, class T>
__global__ void softmax_rows_side_by_side(Inputs<T, Op::kInputs> in, T* out, std::int64_t rows,
                                          std::int64_t size, std::int64_t stride) {
  using Math = MathType<T>;
  using State = typename Op::State;
  constexpr int V = 4;
  RINGRAD_SHARED(State, shared, [kThreads]);  // (blockDim.y, blockDim.x)
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t begin = row / stride * stride * size + row % stride;
  const std::int64_t n = row < rows ? size : 0, step = blockDim.y;
  const auto load = [&](std::int64_t i, Math(&values)[Op::kInputs][V]) {
#pragma unroll
    for (int k = 0; k < Op::kInputs; ++k)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const std::int64_t at = i + v * step;
        values[k][v] = at < n ? static_cast<Math>(in.data[k][begin + at * stride]) : Op::kPad;
      }
  };
  Math values[Op::kInputs][V];
  State state = Op::nothing();
  for (std::int64_t i = threadIdx.y; i < n; i += V * step) {
    load(i, values);
    Op::take(state, values);
  }
  if (step > 1) {
    shared[threadIdx.y * blockDim.x + threadIdx.x] = state;
    __syncthreads();  // all parts of the rows are written
    state = shared[threadIdx.x];
    for (unsigned y = 1; y < blockDim.y; ++y)
      state = typename Op::Merge()(state, shared[y * blockDim.x + threadIdx.x]);
  }
  const Op op(state);
  for (std::int64_t i = threadIdx.y; i < n; i += V * step) {
    load(i, values);
    Math results[V];
    compute(op, values, results);
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (i + v * step < n) out[begin + (i + v * step) * stride] = T(results[v]);
  }
}

// Block b processes row b, thread t its packs t, t + kLongThreads ... The row is read twice. Shared
// memory: one state per warp.
template <class Op, class T>
__global__ void softmax_block_per_row(Inputs<T, Op::kInputs> in, T* out, std::int64_t size) {
  using Math = MathType<T>;
  using State = typename Op::State;
  RINGRAD_SHARED(State, shared, [kLongThreads / kWarp]);
  const Row<T> row(blockIdx.x * size, size);
  const auto load = [&](std::int64_t pack, Math(&values)[Op::kInputs][kPack<T>]) {
#pragma unroll
    for (int k = 0; k < Op::kInputs; ++k) row.load(in.data[k], pack, Op::kPad, values[k]);
  };
  Math values[Op::kInputs][kPack<T>];
  State state = Op::nothing();
  for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kLongThreads) {
    load(pack, values);
    Op::take(state, values);
  }
  const Op op(block_reduce<kLongThreads>(state, typename Op::Merge(), shared));
  for (std::int64_t pack = threadIdx.x; pack < row.packs(); pack += kLongThreads) {
    load(pack, values);
    Math results[kPack<T>];
    compute(op, values, results);
    row.store(out, pack, results);
  }
}

template <class T>
constexpr int kPacksKept = packs_in<T>(128);  // of each input, per thread

// Block b processes rows b * blockDim.y ...; thread (x, y) reads packs x, x + kRowThreads ... of
// row y. Shared memory: one state per warp.
// REQUIRES: at most kPacksKept<T> * kRowThreads packs per row
template <class Op, class T, int kRowThreads>
__global__ void softmax_in_registers(Inputs<T, Op::kInputs> in, T* out, std::int64_t rows,
                                     std::int64_t size) {
  using Math = MathType<T>;
  using State = typename Op::State;
  RINGRAD_SHARED(State, shared, [kRowWarps<kRowThreads>]);
  const std::int64_t r = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const Row<T, int> row(r < rows ? r * size : 0, r < rows ? static_cast<int>(size) : 0);
  const auto pack_of = [](int i) { return static_cast<int>(threadIdx.x) + i * kRowThreads; };
  Math values[kPacksKept<T>][Op::kInputs][kPack<T>];
  const auto for_each_pack = [&](auto visit) {
#pragma unroll
    for (int i = 0; i < kPacksKept<T>; ++i)
      if (pack_of(i) < row.packs()) visit(pack_of(i), values[i]);
  };
  for_each_pack([&](int pack, auto& in_pack) {
#pragma unroll
    for (int k = 0; k < Op::kInputs; ++k) row.load(in.data[k], pack, Op::kPad, in_pack[k]);
  });
  State state = Op::nothing();
  if constexpr (std::is_same_v<Op, Softmax<Math>>) {
    // One exponential per element: relative to the thread's maximum, then scaled to the row's.
    for_each_pack(
        [&](int, const auto& in_pack) { state.maximum = largest(state.maximum, in_pack[0]); });
    for_each_pack([&](int, auto& in_pack) {
#pragma unroll
      for (Math& x : in_pack[0]) {
        x = shifted_exp(x, state.maximum);
        state.sum += x;
      }
    });
    const State of_row = row_reduce<kRowThreads>(state, typename Op::Merge(), shared);
    const Math scale = shifted_exp(state.maximum, of_row.maximum) / of_row.sum;
    for_each_pack([&](int pack, auto& in_pack) {
#pragma unroll
      for (Math& x : in_pack[0]) x *= scale;
      row.store(out, pack, in_pack[0]);
    });
  } else {
    for_each_pack([&](int, const auto& in_pack) { Op::take(state, in_pack); });
    const Op op(row_reduce<kRowThreads>(state, typename Op::Merge(), shared));
    for_each_pack([&](int pack, const auto& in_pack) {
      Math results[kPack<T>];
      compute(op, in_pack, results);
      row.store(out, pack, results);
    });
  }
}

// -- Host -----------------------------------------------------------------------------------------

template <template <class> class Operator, class... In>
void run(const char* name, int axis, const Tensor& out, Where where, const In&... in) {
  if (out.numel() == 0) return;
  const std::int64_t size = out.shape()[axis], rows = out.numel() / size;
  const std::int64_t stride = size == 1 ? 1 : out.strides()[axis];
  const double bytes = (1 + sizeof...(In)) * bytes_of(out);
  dispatch_floating(out.dtype(), [&]<class T>() {
    using Op = Operator<MathType<T>>;
    // Neighbouring threads read rows of at most 64 bytes by element; the cache combines the reads.
    if (stride > 1 || size * sizeof(T) <= 64) {
      // If there are few rows, more threads share each.
      const unsigned shares = rows < (1 << 17) && size >= 16 ? 8 : 1;
      const LaunchConfig config{.name = name,
                                .grid = num_blocks(rows, kThreads / shares),
                                .block = {kThreads / shares, shares},
                                .bytes = bytes};
      return launch_on(out.device(), config, where, softmax_rows_side_by_side<Op, T>,
                       Inputs<T, Op::kInputs>{in.template device_data<T>()...},
                       out.device_data<T>(), rows, size, stride);
    }
    const std::array<Tensor, sizeof...(In)> from = {aligned(in, where)...};
    Inputs<T, Op::kInputs> inputs{};
    for (std::size_t k = 0; k < from.size(); ++k)
      inputs.data[k] = from[k].template device_data<T>();
    const bool fits = dispatch_threads_per_row<kPacksKept<T>, 512>(
        packs_per_row<T>(size), [&]<int kRowThreads>() {
          launch_on(out.device(), threads_per_row<kRowThreads>(name, rows, bytes), where,
                    softmax_in_registers<Op, T, kRowThreads>, inputs, out.device_data<T>(), rows,
                    size);
        });
    if (fits) return;
    const LaunchConfig config{
        .name = name, .grid = static_cast<unsigned>(rows), .block = kLongThreads, .bytes = bytes};
    launch_on(out.device(), config, where, softmax_block_per_row<Op, T>, inputs,
              out.device_data<T>(), size);
  });
}

}  // namespace

void softmax(const Tensor& x, int axis, const Tensor& y, Where where) {
  run<Softmax>("softmax", axis, y, where, x);
}

void log_softmax(const Tensor& x, int axis, const Tensor& y, Where where) {
  run<LogSoftmax>("log_softmax", axis, y, where, x);
}

void softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                      const Tensor& grad_input, Where where) {
  run<SoftmaxBackward>("softmax_backward", axis, grad_input, where, grad_output, y);
}

void log_softmax_backward(const Tensor& grad_output, const Tensor& y, int axis,
                          const Tensor& grad_input, Where where) {
  run<LogSoftmaxBackward>("log_softmax_backward", axis, grad_input, where, grad_output, y);
}

}  // namespace ringrad::kernels::cuda
