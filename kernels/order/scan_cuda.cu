// Scans on a GPU, as a ladder:
//
//     scan_line_per_thread    one thread goes through a line: for many lines, or short ones
//     scan_line_per_block     a block goes through a line in tiles, and scans each in log2 steps
//
// Both see a scan as an associative combination of states, so that a tile can be scanned in pairs:
// of sums, of products, or, for a recurrence, of functions y -> a y + b.

#include "ringrad/kernels/order/scan.h"
#include "ringrad/kernels/per_element.cuh"

namespace ringrad::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
struct Sum {
  using State = MathType<T>;
  const T* x;
  __device__ State start() const { return 0; }
  __device__ State at(std::int64_t i) const { return static_cast<State>(x[i]); }
  __device__ State after(State first, State second) const { return first + second; }
  __device__ T result(State state) const { return static_cast<T>(state); }
};

template <class T>
struct Product {
  using State = MathType<T>;
  const T* x;
  __device__ State start() const { return 1; }
  __device__ State at(std::int64_t i) const { return static_cast<State>(x[i]); }
  __device__ State after(State first, State second) const { return first * second; }
  __device__ T result(State state) const { return static_cast<T>(state); }
};

template <class T>
struct Recurrence {
  struct State {
    MathType<T> a, b;
  };
  const T *a, *b;
  __device__ State start() const { return {1, 0}; }
  __device__ State at(std::int64_t i) const {
    return {static_cast<MathType<T>>(a[i]), static_cast<MathType<T>>(b[i])};
  }
  // a2 (a1 y + b1) + b2
  __device__ State after(State first, State second) const {
    return {second.a * first.a, second.a * first.b + second.b};
  }
  __device__ T result(State state) const { return static_cast<T>(state.b); }
};

struct Walk {
  Lines lines;
  bool reversed;

  // The place of element i, in the order of the scan, of a line.
  __device__ std::int64_t place(std::int64_t line, std::int64_t i) const {
    const std::int64_t outer = line / lines.inner, inner = line % lines.inner;
    return (outer * lines.n + (reversed ? lines.n - 1 - i : i)) * lines.inner + inner;
  }
};

// One line per thread. Bound: bandwidth, if neighbouring lines are neighbours in memory.
template <class Scan, class T>
__global__ void scan_line_per_thread(Scan scan, Walk walk, std::int64_t count, T* y) {
  for (const std::int64_t line : own_elements(count)) {
    auto state = scan.start();
    for (std::int64_t i = 0; i < walk.lines.n; ++i) {
      const std::int64_t at = walk.place(line, i);
      state = scan.after(state, scan.at(at));
      y[at] = scan.result(state);
    }
  }
}

// One line per block, kThreads elements at a time, by Hillis and Steele 1986: after the step with
// distance d, a thread's state covers 2 d elements up to its own. The last thread's state, passed
// on as `before`, covers all earlier tiles. Shared memory: kThreads states. Bound: latency of the
// steps.
template <class Scan, class T>
__global__ void scan_line_per_block(Scan scan, Walk walk, std::int64_t count, T* y) {
  using State = typename Scan::State;
  RINGRAD_SHARED(State, states, [kThreads]);
  for (std::int64_t line = blockIdx.x; line < count; line += gridDim.x) {
    State before = scan.start();
    for (std::int64_t tile = 0; tile < walk.lines.n; tile += kThreads) {
      const std::int64_t i = tile + threadIdx.x;
      const bool inside = i < walk.lines.n;
      State state = inside ? scan.at(walk.place(line, i)) : scan.start();
      for (unsigned distance = 1; distance < kThreads; distance *= 2) {
        states[threadIdx.x] = state;
        __syncthreads();  // all states of this step are written
        if (threadIdx.x >= distance) state = scan.after(states[threadIdx.x - distance], state);
        __syncthreads();  // all are read
      }
      state = scan.after(before, state);
      if (inside) y[walk.place(line, i)] = scan.result(state);
      states[threadIdx.x] = state;
      __syncthreads();  // the last thread's state is written
      before = states[kThreads - 1];
      __syncthreads();  // all have read it, so that the next tile may write
    }
  }
}

template <class Scan, class T>
void run(Scan scan, const Lines& lines, bool reversed, const Tensor& y, T* out, Where where) {
  constexpr std::int64_t kManyLines = 1 << 14, kShort = 32;
  const bool thread_per_line = lines.count() >= kManyLines || lines.n <= kShort;
  const Walk walk{lines, reversed};
  const std::int64_t count = lines.count();
  if (thread_per_line)
    launch_on(y.device(), thread_per_element("scan_lines", count), where,
              scan_line_per_thread<Scan, T>, scan, walk, count, out);
  else
    launch_on(y.device(), {.name = "scan", .grid = num_blocks(count, 1), .block = kThreads}, where,
              scan_line_per_block<Scan, T>, scan, walk, count, out);
}

}  // namespace

void scan(ScanOp op, const Tensor& x, const Lines& lines, bool reversed, const Tensor& y,
          Where where) {
  const auto of = [&]<class T>() {
    if (op == ScanOp::sum)
      run(Sum<T>{x.device_data<T>()}, lines, reversed, y, y.device_data<T>(), where);
    else
      run(Product<T>{x.device_data<T>()}, lines, reversed, y, y.device_data<T>(), where);
  };
  if (x.dtype() == DType::int64) return of.template operator()<std::int64_t>();
  dispatch_floating(x.dtype(), of);
}

void recurrence(const Tensor& a, const Tensor& b, const Lines& lines, bool reversed,
                const Tensor& y, Where where) {
  dispatch_floating(a.dtype(), [&]<class T>() {
    run(Recurrence<T>{a.device_data<T>(), b.device_data<T>()}, lines, reversed, y,
        y.device_data<T>(), where);
  });
}

}  // namespace ringrad::kernels::cuda
