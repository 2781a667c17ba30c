#include <algorithm>
#include <type_traits>

#include "ringrad/core/gpu/launch.h"
#include "ringrad/core/gpu/pack.h"
#include "ringrad/parallel/comm/blocks/reduce_functors.h"
#include "ringrad/parallel/comm/blocks/reduce_terms_cuda.h"

namespace ringrad::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, std::size_t kMost>
struct TermsOf {
  const T* terms[kMost];
  T* outs[kMost];
  int num_terms, num_outs;
  float divisor;
};

template <class Elements, class T, std::size_t kMost, class Op>
__device__ void reduce_at(const TermsOf<T, kMost>& sum, std::int64_t at, Op op) {
  constexpr int V = sizeof(Elements) / sizeof(T);
  using Math = MathType<T>;
  const auto load = [&](int t) { return *reinterpret_cast<const Elements*>(sum.terms[t] + at); };
  const Elements first = load(0);
  Math folded[V];
  for (int k = 0; k < V; ++k) folded[k] = static_cast<Math>(first.values[k]);
  for (int t = 1; t < sum.num_terms; ++t) {
    const Elements term = load(t);
    for (int k = 0; k < V; ++k) folded[k] = op(folded[k], static_cast<Math>(term.values[k]));
  }
  Elements result;
  for (int k = 0; k < V; ++k) {
    if constexpr (std::is_floating_point_v<Math>)
      if (sum.divisor != 1) folded[k] /= static_cast<Math>(sum.divisor);
    result.values[k] = T(folded[k]);
  }
  for (int o = 0; o < sum.num_outs; ++o) *reinterpret_cast<Elements*>(sum.outs[o] + at) = result;
}

// Elements [lead, lead + V * packs) 16 bytes at a time, the others one by one. Each element is read
// from all terms before it is written. Bound: bandwidth, or the links to those whose memory is
// read.
template <class T, std::size_t kMost, class Op>
__global__ void reduce_terms_packed(TermsOf<T, kMost> sum, std::int64_t count, std::int64_t lead,
                                    std::int64_t packs, Op op) {
  constexpr int V = 16 / sizeof(T);
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::int64_t i = thread; i < packs; i += step) reduce_at<Pack<T, V>>(sum, lead + i * V, op);
  const std::int64_t singles = count - packs * V;
  for (std::int64_t i = thread; i < singles; i += step)
    reduce_at<Pack<T, 1>>(sum, i < lead ? i : i + packs * V, op);
}

std::uintptr_t misalignment(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16; }

template <class T, std::size_t kMost, class Op>
void launch_reduce(Device device, std::span<const std::byte* const> terms,
                   std::span<std::byte* const> outs, std::int64_t count, int divisor, Op op,
                   Where where) {
  constexpr int V = 16 / sizeof(T);
  TermsOf<T, kMost> sum{};
  sum.num_terms = static_cast<int>(terms.size());
  sum.num_outs = static_cast<int>(outs.size());
  sum.divisor = static_cast<float>(divisor);
  const std::uintptr_t offset = misalignment(terms[0]);
  bool is_alike = offset % sizeof(T) == 0;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    sum.terms[t] = reinterpret_cast<const T*>(terms[t]);
    is_alike = is_alike && misalignment(terms[t]) == offset;
  }
  for (std::size_t o = 0; o < outs.size(); ++o) {
    sum.outs[o] = reinterpret_cast<T*>(outs[o]);
    is_alike = is_alike && misalignment(outs[o]) == offset;
  }
  const std::int64_t to_boundary = static_cast<std::int64_t>((16 - offset) % 16 / sizeof(T));
  const std::int64_t lead = is_alike ? std::min(to_boundary, count) : count;
  const std::int64_t packs = (count - lead) / V;
  const std::int64_t threads = std::max(packs, count - packs * V);
  launch_on(device,
            {.name = "reduce_terms",
             .grid = num_blocks(threads, kThreads),
             .block = kThreads,
             .bytes = static_cast<double>(count) * sizeof(T) * (terms.size() + outs.size())},
            where, reduce_terms_packed<T, kMost, Op>, sum, count, lead, packs, op);
}

}  // namespace

void reduce_terms(Device device, DType dtype, ReduceOp op, std::span<const std::byte* const> terms,
                  std::span<std::byte* const> outs, std::int64_t count, int divisor, Where where) {
  if (count == 0) return;
  RINGRAD_ASSERT(std::max(terms.size(), outs.size()) <= kMaxTerms);
  const bool is_small = std::max(terms.size(), outs.size()) <= 8;
  const int by = op == ReduceOp::mean ? divisor : 1;
  dispatch_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>)
      RINGRAD_ASSERT(dtype != DType::bool_);
    else
      dispatch_reduce(op, [&](auto function) {
        if (is_small)
          launch_reduce<T, 8>(device, terms, outs, count, by, function, where);
        else
          launch_reduce<T, kMaxTerms>(device, terms, outs, count, by, function, where);
      });
  });
}

}  // namespace ringrad::cuda
