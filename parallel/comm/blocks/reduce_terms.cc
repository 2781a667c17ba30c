#include "ringrad/parallel/comm/blocks/reduce_terms.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ringrad/core/simd.h"
#include "ringrad/parallel/comm/blocks/reduce_functors.h"

namespace ringrad {
namespace {

// Elements that a sum of many terms, or a division, works on at a time: they stay in the
// first-level cache (at most 16 KiB).
constexpr std::int64_t kBlock = 2048;

// The simd pragmas say that iterations are independent, also where out is one of the inputs.
template <class T, class Op>
RINGRAD_CLONES void combine(T* out, const T* a, const T* b, std::int64_t count, Op op) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = op(a[i], b[i]);
}

template <class T>
RINGRAD_CLONES void divide(T* values, std::int64_t count, T divisor) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] / divisor;
}

template <class To, class From>
RINGRAD_CLONES void convert(const From* in, To* out, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<To>(in[i]);
}

// block[i] = the terms' elements at + i, folded.
template <class T, class Op>
void fold(std::span<const std::byte* const> terms, std::int64_t at, std::int64_t length, T* block,
          Op op) {
  const auto term = [&](std::size_t i) { return reinterpret_cast<const T*>(terms[i]) + at; };
  if (terms.size() == 1) return static_cast<void>(std::copy_n(term(0), length, block));
  combine(block, term(0), term(1), length, op);
  for (std::size_t i = 2; i < terms.size(); ++i) combine(block, block, term(i), length, op);
}

// Block by block: first all terms are read, then all outputs are written, since an output may be a
// term. The block between them stays in the first-level cache.
template <class T, class Op>
void reduce(std::span<const std::byte* const> terms, std::span<std::byte* const> outs,
            std::int64_t count, Op op, int divisor) {
  T block[kBlock];
  for (std::int64_t at = 0; at < count; at += kBlock) {
    const std::int64_t length = std::min(kBlock, count - at);
    fold(terms, at, length, block, op);
    if (divisor != 1) divide(block, length, static_cast<T>(divisor));
    for (std::byte* out : outs) std::memcpy(out + at * sizeof(T), block, length * sizeof(T));
  }
}

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

}  // namespace

DType carrier_dtype(DType dtype) {
  if (is_half(dtype)) return DType::float32;
  return dtype == DType::bool_ ? DType::uint8 : dtype;
}

void reduce_terms(DType dtype, ReduceOp op, std::span<const std::byte* const> terms,
                  std::span<std::byte* const> outs, std::int64_t count, int divisor) {
  const int by = op == ReduceOp::mean ? divisor : 1;
  dispatch_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
      dispatch_reduce(op, [&](auto functor) { reduce<T>(terms, outs, count, functor, by); });
    else
      RINGRAD_ASSERT(carrier_dtype(dtype) == dtype);
  });
}

void to_carrier(DType dtype, const std::byte* in, std::byte* carrier, std::int64_t count) {
  auto* wide = reinterpret_cast<float*>(carrier);
  if (dtype == DType::float16) return convert(reinterpret_cast<const float16*>(in), wide, count);
  if (dtype == DType::bfloat16) return convert(reinterpret_cast<const bfloat16*>(in), wide, count);
  if (count > 0) std::memcpy(carrier, in, count * size_bytes(dtype));
}

void from_carrier(DType dtype, const std::byte* carrier, std::byte* out, std::int64_t count) {
  const auto* wide = reinterpret_cast<const float*>(carrier);
  if (dtype == DType::float16) return convert(wide, reinterpret_cast<float16*>(out), count);
  if (dtype == DType::bfloat16) return convert(wide, reinterpret_cast<bfloat16*>(out), count);
  if (count > 0) std::memcpy(out, carrier, count * size_bytes(dtype));
}

}  // namespace ringrad
