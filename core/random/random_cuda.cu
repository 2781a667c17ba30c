#include "ringrad/core/gpu/launch.h"
#include "ringrad/core/random/random_cuda.h"
#include "ringrad/core/random/random_draws.h"

namespace ringrad::cuda {
namespace {

constexpr int kThreads = 256;

// The location of element i in row-major order.
struct Elements {
  Shape shape;
  Strides strides;
  bool contiguous;

  constexpr std::int64_t offset(std::int64_t i) const {
    if (contiguous) return i;
    std::int64_t offset = 0;
    for (int axis = shape.size() - 1; axis >= 0; --axis) {
      offset += i % shape[axis] * strides[axis];
      i /= shape[axis];
    }
    return offset;
  }
};

// One counter (four words) per thread. Bound: arithmetic.
template <class T, class Draw>
__global__ void fill_thread_per_counter(T* x, std::int64_t count, Elements elements,
                                        std::uint64_t seed, FirstCounter first_counter, Draw draw) {
  constexpr int kElements = 4 / Draw::kWords;
  const std::uint64_t counter =
      first_counter.replayed ? *first_counter.replayed : first_counter.counter;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * kElements;
  std::int64_t first = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kElements;
  for (; first < count; first += step) {
    T drawn[kElements];
    draw(draws::words<1>(seed, counter + static_cast<std::uint64_t>(first / kElements)), drawn);
    for (int k = 0; k < kElements && first + k < count; ++k)
      x[elements.offset(first + k)] = drawn[k];
  }
}

}  // namespace

template <class T, class Draw>
void fill_random(const Tensor& x, std::uint64_t seed, FirstCounter first, const Draw& draw,
                 Where where) {
  if (x.numel() == 0) return;
  const std::int64_t counters = (x.numel() * Draw::kWords + 3) / 4;
  launch_on(x.device(),
            {.name = "fill_random", .grid = num_blocks(counters, kThreads), .block = kThreads},
            where, fill_thread_per_counter<T, Draw>, x.device_data<T>(), x.numel(),
            Elements{x.shape(), x.strides(), x.is_contiguous()}, seed, first, draw);
}

#define RINGRAD_FILL_RANDOM(Draw, T)                                                              \
  template void fill_random<T>(const Tensor&, std::uint64_t, FirstCounter, const draws::Draw<T>&, \
                               Where)

#define RINGRAD_FILL_RANDOM_FLOATS(Draw) \
  RINGRAD_FILL_RANDOM(Draw, float);      \
  RINGRAD_FILL_RANDOM(Draw, double);     \
  RINGRAD_FILL_RANDOM(Draw, float16);    \
  RINGRAD_FILL_RANDOM(Draw, bfloat16)
#define RINGRAD_FILL_RANDOM_TRUTHS(dtype, T) RINGRAD_FILL_RANDOM(BernoulliDraw, T);

RINGRAD_FILL_RANDOM_FLOATS(UniformDraw);
RINGRAD_FILL_RANDOM_FLOATS(NormalDraw);
RINGRAD_FILL_RANDOM_FLOATS(ExponentialDraw);
RINGRAD_FOR_EACH_DTYPE(RINGRAD_FILL_RANDOM_TRUTHS)

}  // namespace ringrad::cuda
