// Stores past the caches: a line that is written whole need not be read first, but its next reader
// finds it in memory only. For large results of kernels that read much more than they write.

#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringrad::kernels {

/// Copies past the caches. Other threads may read `to` after end_copies_past_caches() of this one.
/// REQUIRES: both places and `bytes` are multiples of 16
inline void copy_past_caches(void* to, const void* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += sizeof(__m128i))
    _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<std::byte*>(to) + i),
                     *reinterpret_cast<const __m128i*>(static_cast<const std::byte*>(from) + i));
}

/// Makes those stores visible before any signal to another thread that they are done.
inline void end_copies_past_caches() { _mm_sfence(); }

/// One thread's writer of the rows of y (rows, C). A large result goes past the caches, through a
/// buffer of one row; rows too long for the second-level cache are written in place.
///
///     T* row = writer.row(i);  compute(row);  writer.finish(i);
template <class T>
class RowWriter {
 public:
  RowWriter(T* y, std::int64_t rows, std::int64_t C) : y_(y), columns_(C) {
    constexpr std::int64_t kLeastBytes = 16 << 20, kMostRowBytes = 64 << 10;
    const std::int64_t row_bytes = C * static_cast<std::int64_t>(sizeof(T));
    const bool is_aligned = (reinterpret_cast<std::uintptr_t>(y) | row_bytes) % 16 == 0;
    if (is_aligned && row_bytes <= kMostRowBytes && rows * row_bytes >= kLeastBytes)
      buffer_.resize(static_cast<std::size_t>(C));
  }
  ~RowWriter() {
    if (!buffer_.empty()) end_copies_past_caches();
  }
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;

  T* row(std::int64_t i) { return buffer_.empty() ? y_ + i * columns_ : buffer_.data(); }
  void finish(std::int64_t i) {
    if (!buffer_.empty())
      copy_past_caches(y_ + i * columns_, buffer_.data(), buffer_.size() * sizeof(T));
  }

 private:
  T* const y_;
  const std::int64_t columns_;
  std::vector<T> buffer_;  // empty: rows are written in place
};

}  // namespace ringrad::kernels
