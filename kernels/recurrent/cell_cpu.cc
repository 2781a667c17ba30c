#include <algorithm>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/elementwise/math.h"
#include "ringrad/kernels/parallel_for.h"
#include "ringrad/kernels/recurrent/cell.h"

namespace ringrad::kernels::cpu {
namespace {

// A unit reads and writes only places of its own, so units may be computed at once.
template <class Unit>
RINGRAD_CLONES void run_rows(Unit unit, std::int64_t begin, std::int64_t end) {
  for (std::int64_t b = begin; b < end; ++b) {
#pragma omp simd
    for (std::int64_t j = 0; j < unit.hidden_size; ++j) unit(b, j);
  }
}

template <class Step>
void run(const Step& step) {
  constexpr std::int64_t kUnits = 1 << 11;  // a thread's share takes about ten microseconds
  const std::int64_t batch = step.hidden.shape()[0], size = step.hidden.shape()[1];
  dispatch_floating(step.hidden.dtype(), [&]<class T>() {
    with_cell<T>(step, [&](const auto& unit) {
      parallel_for(batch, std::max<std::int64_t>(1, kUnits / std::max<std::int64_t>(size, 1)),
                   [&](std::int64_t begin, std::int64_t end) { run_rows(unit, begin, end); });
    });
  });
}

}  // namespace

void cell_forward(const ForwardStep& step) { run(step); }
void cell_backward(const BackwardStep& step) { run(step); }

}  // namespace ringrad::kernels::cpu
