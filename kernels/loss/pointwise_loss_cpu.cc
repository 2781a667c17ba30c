#include <algorithm>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/loss/pointwise_loss_elements.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

using pointwise_losses::dispatch_elements;
using pointwise_losses::kGrain;

template <class Loss, class T>
RINGRAD_CLONES void write_values(Loss loss, std::int64_t begin, std::int64_t end, T* values) {
  for (std::int64_t i = begin; i < end; ++i) values[i] = static_cast<T>(loss.value(i));
}

template <class Math, class Loss>
RINGRAD_CLONES Math sum_values(Loss loss, std::int64_t begin, std::int64_t end) {
  Math sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) sum += loss.value(i);
  return sum;
}

// Within a block, sums have the type of the arithmetic and use 16 or more partial sums side by
// side, so each adds at most a few hundred terms. Between blocks, sums are double.
constexpr std::int64_t kBlock = 4096;

template <class Math, class Loss>
double sum_all(Loss loss, std::int64_t n) {
  if (n <= kBlock) return static_cast<double>(sum_values<Math>(loss, 0, n));
  const std::int64_t num_blocks = (n + kBlock - 1) / kBlock;
  std::vector<double> partial(static_cast<std::size_t>(num_blocks));
  parallel_for(num_blocks, kGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      partial[static_cast<std::size_t>(k)] =
          static_cast<double>(sum_values<Math>(loss, k * kBlock, std::min(n, (k + 1) * kBlock)));
  });
  double sum = 0;
  for (double part : partial) sum += part;
  return sum;
}

}  // namespace

void pointwise_loss(PointwiseLoss loss, const Tensor& x, const Tensor& targets,
                    const Tensor& parameter, Reduction reduction, const Tensor& result) {
  const std::int64_t n = x.numel();
  dispatch_floating(x.dtype(), [&]<class T>() {
    using Math = MathType<T>;
    T* out = result.data<T>();
    dispatch_elements<T>(loss, x, targets, parameter, [&](auto elements) {
      if (reduction == Reduction::none) {
        parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
          write_values(elements, begin, end, out);
        });
      } else {
        const double sum = sum_all<Math>(elements, n);
        const double divisor = reduction == Reduction::mean ? static_cast<double>(n) : 1;
        *out = static_cast<T>(static_cast<Math>(sum / divisor));
      }
    });
  });
}

}  // namespace ringrad::kernels::cpu
