#include "ringrad/kernels/per_element.cuh"
#include "ringrad/kernels/recurrent/cell.h"

namespace ringrad::kernels::cuda {
namespace {

// One unit of one sequence per thread; neighbouring threads have neighbouring units.
// Bound: latency, of a kernel per step.
template <class Unit>
__global__ void cell_thread_per_unit(Unit unit, std::int64_t n) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) unit(i / unit.hidden_size, i % unit.hidden_size);
}

template <class Step>
void run(const char* name, const Step& step, Where where) {
  const std::int64_t n = step.hidden.numel();
  if (n == 0) return;
  dispatch_floating(step.hidden.dtype(), [&]<class T>() {
    with_cell<T>(step, [&](const auto& unit) {
      launch_on(step.hidden.device(), thread_per_element(name, n), where,
                cell_thread_per_unit<std::decay_t<decltype(unit)>>, unit, n);
    });
  });
}

}  // namespace

void cell_forward(const ForwardStep& step, Where where) { run("cell_forward", step, where); }
void cell_backward(const BackwardStep& step, Where where) { run("cell_backward", step, where); }

}  // namespace ringrad::kernels::cuda
