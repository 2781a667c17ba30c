#include "ringrad/kernels/copy/copy_cpu.h"

#include <algorithm>
#include <cstring>

#include "ringrad/core/dispatch_size.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Calls body(dst, src, n) for rows of the nest, or for pieces of long rows, on all threads.
template <class To, class From, class Body>
void for_rows(const LoopNest<2>& nest, To* dst, const From* src, std::int64_t element_bytes,
              Body body) {
  const std::int64_t n = nest.row_extent(), grain = kBytesPerThread / element_bytes;
  const auto [dst_step, src_step] = nest.row_strides();
  if (n > grain) {
    for_each_row(nest, 0, nest.num_rows(), [&](const LoopNest<2>::Offsets& offsets) {
      parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
        body(dst + offsets[0] + begin * dst_step, src + offsets[1] + begin * src_step, end - begin);
      });
    });
    return;
  }
  parallel_for(nest.num_rows(), ceil_div(grain, n), [&](std::int64_t begin, std::int64_t end) {
    for_each_row(nest, begin, end, [&](const LoopNest<2>::Offsets& offsets) {
      body(dst + offsets[0], src + offsets[1], n);
    });
  });
}

// -- Rows ---------------------------------------------------------------------------------------

template <class T>
void fill_row(T* dst, T value, std::int64_t n) {
  if (value == 0)
    std::memset(dst, 0, static_cast<std::size_t>(n) * sizeof(T));
  else
    std::fill_n(dst, n, value);
}

template <class T>
void move_row(T* dst, std::int64_t dst_step, const T* src, std::int64_t src_step, std::int64_t n) {
  if (dst_step == 1 && src_step == 1) {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(T));
  } else if (dst_step == 1 && src_step == 0) {
    fill_row(dst, *src, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) dst[i * dst_step] = src[i * src_step];
  }
}

// -- Same dtype: elements are unsigned integers of the same size ---------------------------------

template <class T>
void move(const LoopNest<2>& nest, T* dst, const T* src) {
  const auto [dst_step, src_step] = nest.row_strides();
  if (dst_step == 1 && src_step > 1)
    for (unsigned i = 0; i + 1 < static_cast<unsigned>(nest.axes); ++i)
      if (nest.strides[i][1] == 1) return transpose(nest, i, dst, src);
  for_rows(nest, dst, src, sizeof(T), [dst_step, src_step](T* to, const T* from, std::int64_t n) {
    move_row(to, dst_step, from, src_step, n);
  });
}

// -- Another dtype ------------------------------------------------------------------------------

// Elements that are not neighbours are gathered, converted and scattered in chunks of this size.
constexpr std::int64_t kChunk = 256;

void convert_strided(ConvertRow convert, std::byte* dst, std::int64_t dst_step,
                     std::size_t dst_bytes, const std::byte* src, std::int64_t src_step,
                     std::size_t src_bytes, std::int64_t n) {
  alignas(64) std::byte gathered[kChunk * sizeof(double)], converted[kChunk * sizeof(double)];
  for (std::int64_t i = 0; i < n; i += kChunk) {
    const std::int64_t count = std::min(kChunk, n - i);
    dispatch_size(src_bytes, [&]<class T>() {
      move_row(reinterpret_cast<T*>(gathered), 1, reinterpret_cast<const T*>(src) + i * src_step,
               src_step, count);
    });
    convert(converted, gathered, count);
    dispatch_size(dst_bytes, [&]<class T>() {
      move_row(reinterpret_cast<T*>(dst) + i * dst_step, dst_step,
               reinterpret_cast<const T*>(converted), 1, count);
    });
  }
}

}  // namespace

void copy(const LoopNest<2>& nest, std::byte* dst, DType to, const std::byte* src, DType from) {
  const std::size_t dst_bytes = size_bytes(to), src_bytes = size_bytes(from);
  if (to == from) {
    dispatch_size(dst_bytes, [&]<class T>() {
      move(nest, reinterpret_cast<T*>(dst), reinterpret_cast<const T*>(src));
    });
    return;
  }
  LoopNest<2> bytes = nest;  // the same nest in bytes, since neither element type is known here
  for (unsigned i = 0; i < static_cast<unsigned>(nest.axes); ++i) {
    bytes.strides[i][0] *= static_cast<std::int64_t>(dst_bytes);
    bytes.strides[i][1] *= static_cast<std::int64_t>(src_bytes);
  }
  const ConvertRow convert = convert_row(to, from);
  const auto [dst_step, src_step] = nest.row_strides();
  for_rows(bytes, dst, src, static_cast<std::int64_t>(std::max(dst_bytes, src_bytes)),
           [&](std::byte* row_dst, const std::byte* row_src, std::int64_t n) {
             if (n == 1 || (dst_step == 1 && src_step == 1))
               convert(row_dst, row_src, n);
             else
               convert_strided(convert, row_dst, dst_step, dst_bytes, row_src, src_step, src_bytes,
                               n);
           });
}

}  // namespace ringrad::kernels::cpu
