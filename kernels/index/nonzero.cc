#include "ringrad/kernels/index/nonzero.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "ringrad/core/view.h"
#include "ringrad/kernels/copy/copy.h"
#include "ringrad/kernels/order/scan.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels {
namespace {

// Writes the coordinates of element `position` of a tensor of this shape.
void write_coordinates(const Shape& shape, std::int64_t position, std::int64_t* to) {
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    to[axis] = position % shape[axis];
    position /= shape[axis];
  }
}

// Each chunk counts its elements; the sums of the counts are where each chunk writes.
Tensor find_on_cpu(const Tensor& flags, const Shape& shape, Where where) {
  constexpr std::int64_t kChunk = 1 << 14;
  const std::int64_t n = flags.numel(), chunks = (n + kChunk - 1) / kChunk;
  const bool* flag = flags.data<bool>();
  std::vector<std::int64_t> starts(static_cast<std::size_t>(chunks) + 1, 0);
  const auto end_of = [&](std::int64_t chunk) { return std::min(n, (chunk + 1) * kChunk); };
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c)
      starts[static_cast<std::size_t>(c) + 1] =
          std::count(flag + c * kChunk, flag + end_of(c), true);
  });
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  const Tensor found = empty({starts.back(), shape.size()},
                             {.dtype = DType::int64, .device = flags.device()}, where);
  auto* coordinates = found.data<std::int64_t>();
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      std::int64_t* to = coordinates + starts[static_cast<std::size_t>(c)] * shape.size();
      for (std::int64_t i = c * kChunk; i < end_of(c); ++i) {
        if (!flag[i]) continue;
        write_coordinates(shape, i, to);
        to += shape.size();
      }
    }
  });
  return found;
}

// The running sum of the flags says where each element is written.
Tensor find_on_gpu(const Tensor& flags, const Shape& shape, Where where) {
  const Options options{.dtype = DType::int64, .device = flags.device()};
  const std::int64_t n = flags.numel();
  if (n == 0) return empty({0, shape.size()}, options, where);
  const Tensor flat = view::reshape(flags, {n}, where);
  const Tensor ends = scan(ScanOp::sum, flat, 0, false, where);
  const auto count = view::select(ends, 0, n - 1, where).item<std::int64_t>(where);
  const Tensor found = empty({count, shape.size()}, options, where);
  if (count > 0) cuda::write_nonzero(flat, ends, shape, found, where);
  return found;
}

Tensor find(const Tensor& x, const Shape& shape, Where where) {
  const Tensor flags = contiguous(cast(x, DType::bool_, where), where);
  return x.device().is_cuda() ? find_on_gpu(flags, shape, where) : find_on_cpu(flags, shape, where);
}

}  // namespace

Tensor nonzero(const Tensor& x, Where where) { return find(x, x.shape(where), where); }

Tensor nonzero_positions(const Tensor& x, Where where) {
  const Tensor found = find(x, {x.numel(where)}, where);
  return view::reshape(found, {found.numel()}, where);
}

}  // namespace ringrad::kernels
