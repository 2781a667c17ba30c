#include <algorithm>
#include <cstring>
#include <vector>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/core/simd.h"
#include "ringrad/kernels/index/index_select.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// Moved elements per thread that justify starting one.
constexpr std::int64_t kGrain = 1 << 14;

std::int64_t grain(std::int64_t elements_per_step) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, elements_per_step));
}

// Each step copies one row (o, i) of y, `inner` elements.
template <class Element, class Index>
void select_rows(const Element* x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                 const Index* indices, std::int64_t num_indices, Element* y) {
  parallel_for(outer * num_indices, grain(inner), [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin / num_indices, i = begin % num_indices;
    for (std::int64_t row = begin; row < end; ++row) {
      const Element* from = x + (o * size + indices[i]) * inner;
      if (inner == 1)
        y[row] = *from;
      else
        std::memcpy(y + row * inner, from, static_cast<std::size_t>(inner) * sizeof(Element));
      if (++i == num_indices) i = 0, ++o;
    }
  });
}

// The positions 0 ... I-1 grouped by their index, in growing order within a group:
//
//     order:   i  i  i | i  i | ...        group j is order[starts[j]] ... order[starts[j + 1] - 1]
//              group 0   group 1
struct Groups {
  template <class Index>
  Groups(const Index* indices, std::int64_t num_indices, std::int64_t size)
      : starts(static_cast<std::size_t>(size) + 2), order(static_cast<std::size_t>(num_indices)) {
    // Counts each group's size two places to the right. The running sum then makes starts[j + 1]
    // the place where group j begins, and placing its members moves that to where the group ends.
    for (std::int64_t i = 0; i < num_indices; ++i) ++starts[at(indices[i]) + 2];
    for (std::size_t j = 2; j < starts.size(); ++j) starts[j] += starts[j - 1];
    for (std::int64_t i = 0; i < num_indices; ++i) order[at(starts[at(indices[i]) + 1]++)] = i;
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> order;
};

// y[:] = sum over the group's members i of x[i, :], for `count` columns: kColumns, whose sums then
// stay in registers, or fewer. Members are scattered, so those up to `end`, of later groups, are
// fetched in advance. At most kBlock members are summed before they are added to totals in double.
template <std::int64_t kColumns, class T>
[[gnu::always_inline]] inline void sum_columns(const T* x, std::int64_t inner, std::int64_t count,
                                               const std::int64_t* first, const std::int64_t* last,
                                               const std::int64_t* end, T* y) {
  constexpr std::int64_t kAhead = 6, kLine = 64 / sizeof(T), kBlock = 64;
  using Math = MathType<T>;
  double total[kColumns] = {};
  for (const std::int64_t* i = first; i != last;) {
    Math sum[kColumns] = {};
    for (const std::int64_t* stop = i + std::min(last - i, kBlock); i != stop; ++i) {
      if (end - i > kAhead)
        for (std::int64_t j = 0; j < count; j += kLine)
          __builtin_prefetch(x + i[kAhead] * inner + j);
      const T* row = x + *i * inner;
      for (std::int64_t j = 0; j < count; ++j) sum[j] += static_cast<Math>(row[j]);
    }
    for (std::int64_t j = 0; j < count; ++j) total[j] += static_cast<double>(sum[j]);
  }
  for (std::int64_t j = 0; j < count; ++j) y[j] = static_cast<T>(static_cast<Math>(total[j]));
}

template <class T>
RINGRAD_CLONES void sum_rows(const T* x, std::int64_t inner, const std::int64_t* first,
                             const std::int64_t* last, const std::int64_t* end, T* y) {
  constexpr std::int64_t kColumns = 64;
  std::int64_t k = 0;
  for (; k + kColumns <= inner; k += kColumns)
    sum_columns<kColumns>(x + k, inner, kColumns, first, last, end, y + k);
  if (k < inner) sum_columns<kColumns>(x + k, inner, inner - k, first, last, end, y + k);
}

template <class T>
void sum_groups(const T* x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Groups& groups, std::int64_t excluded, T* y) {
  const auto num_indices = static_cast<std::int64_t>(groups.order.size());
  const std::int64_t* all = groups.order.data() + num_indices;
  parallel_for(outer * size, grain(inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t o = row / size, j = row % size;
      const std::int64_t* first = groups.order.data() + groups.starts[Groups::at(j)];
      const std::int64_t* last = groups.order.data() + groups.starts[Groups::at(j + 1)];
      T* out = y + row * inner;
      if (first == last || j == excluded) {
        std::fill_n(out, inner, T());
        continue;
      }
      sum_rows(x + o * num_indices * inner, inner, first, last, all, out);
    }
  });
}

}  // namespace

void select_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                   const Tensor& indices, const Tensor& y) {
  if (y.numel() == 0) return;
  dispatch_size(size_bytes(x.dtype()), [&]<class Element>() {
    dispatch_index(indices.dtype(), [&]<class Index>() {
      select_rows(reinterpret_cast<const Element*>(x.raw_data()), outer, size, inner,
                  indices.data<Index>(), indices.numel(), reinterpret_cast<Element*>(y.raw_data()));
    });
  });
}

void sum_slices(const Tensor& x, std::int64_t outer, std::int64_t size, std::int64_t inner,
                const Tensor& indices, std::int64_t excluded, const Tensor& y) {
  if (y.numel() == 0) return;
  const Groups groups = dispatch_index(indices.dtype(), [&]<class Index>() {
    return Groups(indices.data<Index>(), indices.numel(), size);
  });
  dispatch_floating(x.dtype(), [&]<class T>() {
    sum_groups(x.data<T>(), outer, size, inner, groups, excluded, y.data<T>());
  });
}

}  // namespace ringrad::kernels::cpu
