#include "ringrad/kernels/index/indices.h"

#include <atomic>

#include "ringrad/core/gpu/device_fault.h"
#include "ringrad/core/simd.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/index/index_check.cuh"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels {
namespace {

constexpr std::int64_t kGrain = 1 << 17;  // indices, of which a thread checks about 15 per ns

// Indices are usually valid: one pass without branches decides whether a bad one must be found.
template <class Index>
RINGRAD_CLONES bool all_valid(const Index* indices, std::int64_t n, IsValid is_valid) {
  int all = 1;
  for (std::int64_t i = 0; i < n; ++i) all &= is_valid(indices[i]) ? 1 : 0;
  return all != 0;
}

}  // namespace

template <class Index>
bool cpu::all_valid(const Index* indices, std::int64_t n, std::int64_t bound) {
  return kernels::all_valid(indices, n, IsValid{bound, false, 0});
}
template bool cpu::all_valid(const std::int32_t*, std::int64_t, std::int64_t);
template bool cpu::all_valid(const std::int64_t*, std::int64_t, std::int64_t);

void check_indices(const char* operation, const char* what, const Tensor& indices,
                   std::int64_t bound, Where where, std::optional<std::int64_t> ignored) {
  check_index(operation, indices.dtype(), where);
  const Tensor flat = contiguous(indices, where);
  const IsValid is_valid{bound, ignored.has_value(), ignored.value_or(0)};
  BadIndex bad{.operation = operation,
               .what = what,
               .value = 0,
               .bound = bound,
               .some_ignored = is_valid.some_ignored,
               .ignored = is_valid.ignored,
               .position = 0,
               .shape = flat.shape(),
               .where = where};
  if (flat.device().is_cuda()) return cuda::check_indices(flat, is_valid, bad);
  dispatch_index(flat.dtype(), [&]<class Index>() {
    const Index* values = flat.data<Index>();
    std::atomic<bool> all = true;
    parallel_for(flat.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (!all_valid(values + begin, end - begin, is_valid)) all = false;
    });
    if (all) return;
    while (is_valid(values[bad.position])) ++bad.position;
    bad.value = values[bad.position];
    throw_bad_index(bad);
  });
}

}  // namespace ringrad::kernels
