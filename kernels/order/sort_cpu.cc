// An element of a line is an item: its key, and its position to break ties. So no two items are
// equal, and any way of sorting them is stable.
//
//     whole lines          radix sort by the bytes of the key, last byte first
//     whole short lines    std::sort
//     a few elements       the line is dealt out to L lanes, of which each finds its best key; the
//                          k-th best of these is a limit that k elements reach at least, and few
//                          others do

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/order/order_key.h"
#include "ringrad/kernels/order/sort.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

constexpr std::int64_t kElementsPerThread = 1 << 11;
constexpr std::int64_t kShortLine = 96;

// Keys of up to 32 bits: the key above the position in one number.
struct NarrowItem {
  std::uint64_t bits;

  NarrowItem() = default;
  NarrowItem(std::uint32_t key, std::uint32_t position)
      : bits(std::uint64_t{key} << 32 | position) {}
  std::uint32_t key() const { return static_cast<std::uint32_t>(bits >> 32); }
  std::uint32_t position() const { return static_cast<std::uint32_t>(bits); }
  bool operator<(const NarrowItem& other) const { return bits < other.bits; }
};

struct WideItem {
  std::uint64_t bits;
  std::uint32_t place;

  WideItem() = default;
  WideItem(std::uint64_t key, std::uint32_t position) : bits(key), place(position) {}
  std::uint64_t key() const { return bits; }
  std::uint32_t position() const { return place; }
  bool operator<(const WideItem& other) const {
    return bits != other.bits ? bits < other.bits : place < other.place;
  }
};

template <class Key>
using ItemOf = std::conditional_t<sizeof(Key) == 8, WideItem, NarrowItem>;

// Sorts items that are in the order of their positions; `other` is as long and is overwritten.
template <int kKeyBytes, class Item>
void radix_sort(std::vector<Item>& items, std::vector<Item>& other) {
  std::array<std::array<std::uint32_t, 256>, kKeyBytes> counts{};
  const auto digit = [](const Item& item, unsigned byte) {
    return static_cast<std::size_t>(item.key() >> (8 * byte) & 255);
  };
  for (const Item& item : items)
    for (unsigned byte = 0; byte < kKeyBytes; ++byte) ++counts[byte][digit(item, byte)];
  for (unsigned byte = 0; byte < kKeyBytes; ++byte) {
    auto& starts = counts[byte];
    if (starts[digit(items[0], byte)] == items.size()) continue;  // all have the same digit
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts) sum += std::exchange(start, sum);
    for (const Item& item : items) other[starts[digit(item, byte)]++] = item;
    std::swap(items, other);
  }
}

constexpr std::int64_t kBlock = 32;

// best[l] = the smaller of itself and the key of element l, for `count` lanes.
template <class T>
RINGRAD_CLONES void keep_best(const T* x, std::int64_t count, bool descending,
                              OrderKey<T>* __restrict best) {
  for (std::int64_t l = 0; l < count; ++l) {
    const OrderKey<T> key = order_key(x[l], descending);
    best[l] = key < best[l] ? key : best[l];
  }
}

// The keys of `count` elements. True if any of them reaches the limit.
template <class T>
RINGRAD_CLONES bool any_reaches(const T* x, std::int64_t count, bool descending, OrderKey<T> limit,
                                OrderKey<T>* __restrict keys) {
  unsigned reached = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    keys[i] = order_key(x[i], descending);
    reached |= keys[i] <= limit ? 1u : 0u;
  }
  return reached != 0;
}

template <class T>
class LineSorter {
 public:
  using Key = OrderKey<T>;
  using Item = ItemOf<Key>;

  LineSorter(const Lines& lines, bool descending)
      : n_(lines.n), step_(lines.inner), descending_(descending) {}

  // The first k elements of the sorted line at x. Elements of x, and of the results, are `step`
  // apart.
  void sort(const T* x, std::int64_t k, T* values, std::int64_t* indices) {
    const auto lanes = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(4 * k, 64))));
    if (lanes <= n_ / 4)
      select(x, k, lanes);
    else
      sort_all(x);
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t position = items_[static_cast<std::size_t>(i)].position();
      values[i * step_] = x[position * step_];
      indices[i * step_] = position;
    }
  }

 private:
  void sort_all(const T* x) {
    items_.clear();
    for (std::int64_t i = 0; i < n_; ++i)
      items_.emplace_back(order_key(x[i * step_], descending_), static_cast<std::uint32_t>(i));
    if (n_ <= kShortLine) return std::sort(items_.begin(), items_.end());
    other_.resize(items_.size());
    radix_sort<sizeof(Key)>(items_, other_);
  }

  void select(const T* x, std::int64_t k, std::int64_t lanes) {
    if (step_ != 1) {
      line_.resize(static_cast<std::size_t>(n_));
      for (std::int64_t i = 0; i < n_; ++i) line_[static_cast<std::size_t>(i)] = x[i * step_];
      x = line_.data();
    }
    best_.assign(static_cast<std::size_t>(lanes), static_cast<Key>(~Key{0}));
    for (std::int64_t i = 0; i < n_; i += lanes)
      keep_best(x + i, std::min(lanes, n_ - i), descending_, best_.data());
    std::nth_element(best_.begin(), best_.begin() + (k - 1), best_.end());
    const Key limit = best_[static_cast<std::size_t>(k - 1)];
    items_.clear();
    std::array<Key, kBlock> keys;
    for (std::int64_t i = 0; i < n_; i += kBlock) {
      const std::int64_t count = std::min(kBlock, n_ - i);
      if (!any_reaches(x + i, count, descending_, limit, keys.data())) continue;
      for (std::int64_t j = 0; j < count; ++j)
        if (const Key key = keys[static_cast<std::size_t>(j)]; key <= limit)
          items_.emplace_back(key, static_cast<std::uint32_t>(i + j));
    }
    const auto last = items_.begin() + k;
    std::nth_element(items_.begin(), last - 1, items_.end());
    std::sort(items_.begin(), last);
  }

  std::int64_t n_, step_;
  bool descending_;
  std::vector<Item> items_, other_;
  std::vector<T> line_;
  std::vector<Key> best_;
};

}  // namespace

void sort(const Tensor& x, const Lines& lines, std::int64_t k, bool descending,
          const Sorted& sorted) {
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsPerThread / lines.n);
  dispatch_dtype(x.dtype(), [&]<class Element>() {
    using T = std::conditional_t<std::is_same_v<Element, bool>, std::uint8_t, Element>;
    const T* from = reinterpret_cast<const T*>(x.raw_data());
    T* values = reinterpret_cast<T*>(sorted.values.raw_data());
    auto* indices = sorted.indices.data<std::int64_t>();
    parallel_for(lines.count(), grain, [&](std::int64_t begin, std::int64_t end) {
      LineSorter<T> sorter(lines, descending);
      for (std::int64_t line = begin; line < end; ++line) {
        const std::int64_t outer = line / lines.inner, inner = line % lines.inner;
        const std::int64_t to = outer * k * lines.inner + inner;
        sorter.sort(from + outer * lines.n * lines.inner + inner, k, values + to, indices + to);
      }
    });
  });
}

}  // namespace ringrad::kernels::cpu
