// Transposition of many matrices at once:
//
//     src, rows of which are contiguous        dst, likewise
//       a b c d                                  a e i m
//       e f g h              --->                b f j n
//       i j k l                                  c g k o
//       m n o p                                  d h l p
//
// A square tile is transposed in a buffer that stays in the first-level cache, so that both tensors
// are accessed in runs of whole cache lines. Within the tile, blocks of L x L elements are
// transposed in L registers of 16 bytes. Zipping register i with register i + L/2 is one perfect
// shuffle of the block's L * L elements. log2(L) perfect shuffles exchange the upper and the lower
// half of the bits of an element's position, which are its row and its column.

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "ringrad/kernels/copy/copy_cpu.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::cpu {
namespace {

// Rows and columns of a tile. A row is 256 bytes, or less if the tile would crowd the cache.
template <class T>
constexpr int kTile = sizeof(T) == 8 ? 32 : 64;

// Elements per register.
template <class T>
constexpr int kLanes = 16 / sizeof(T);

template <class T>
using Lanes [[gnu::vector_size(16)]] = T;

// From this size on, the destination does not fit into a core's second-level cache. Its lines are
// then written past the caches, which saves reading them first. The next tile is also prefetched,
// since the hardware prefetcher does not follow jumps from row to row. A matrix of 4096 x 4096
// floats takes 8.3 ms instead of 32 ms (Xeon, Sapphire Rapids).
constexpr std::int64_t kStreamedBytes = 4 << 20;

template <class T, int... I>
void zip(Lanes<T> a, Lanes<T> b, Lanes<T>& low, Lanes<T>& high, std::integer_sequence<int, I...>) {
  constexpr int L = kLanes<T>;
  low = __builtin_shufflevector(a, b, (I / 2 + I % 2 * L)...);
  high = __builtin_shufflevector(a, b, (L / 2 + I / 2 + I % 2 * L)...);
}

// Writes the transpose of a block of src to the buffer, whose rows are kTile long.
template <class T>
void transpose_block(T* buffer, const T* src, std::int64_t src_step) {
  constexpr int L = kLanes<T>;
  Lanes<T> rows[L];
  for (int i = 0; i < L; ++i) std::memcpy(&rows[i], src + i * src_step, sizeof(rows[i]));
  for (int round = 1; round < L; round *= 2) {
    Lanes<T> zipped[L];
    for (int i = 0; i < L / 2; ++i)
      zip<T>(rows[i], rows[i + L / 2], zipped[2 * i], zipped[2 * i + 1],
             std::make_integer_sequence<int, L>());
    std::copy_n(zipped, L, rows);
  }
  for (int i = 0; i < L; ++i) std::memcpy(buffer + i * kTile<T>, &rows[i], sizeof(rows[i]));
}

template <class T>
struct Tile {
  T* dst;
  const T* src;
  int rows, columns;  // of src
};

template <class T>
void read_transposed(T* buffer, const Tile<T>& tile, std::int64_t src_step) {
  constexpr int L = kLanes<T>;
  const int whole_rows = tile.rows / L * L, whole_columns = tile.columns / L * L;
  for (int r = 0; r < whole_rows; r += L) {
    for (int c = 0; c < whole_columns; c += L)
      transpose_block(buffer + c * kTile<T> + r, tile.src + r * src_step + c, src_step);
    for (int c = whole_columns; c < tile.columns; ++c)
      for (int i = r; i < r + L; ++i) buffer[c * kTile<T> + i] = tile.src[i * src_step + c];
  }
  for (int r = whole_rows; r < tile.rows; ++r)
    for (int c = 0; c < tile.columns; ++c) buffer[c * kTile<T> + r] = tile.src[r * src_step + c];
}

template <class T>
void write_cached(const Tile<T>& tile, std::int64_t dst_step, const T* buffer) {
  for (int c = 0; c < tile.columns; ++c)
    std::memcpy(tile.dst + c * dst_step, buffer + c * kTile<T>,
                static_cast<std::size_t>(tile.rows) * sizeof(T));
}

#if defined(__SSE2__)
constexpr bool kCanStream = true;

// REQUIRES: a whole tile; rows of dst start at multiples of 16 bytes
template <class T>
void write_streamed(const Tile<T>& tile, std::int64_t dst_step, const T* buffer) {
  for (int c = 0; c < tile.columns; ++c)
    for (int r = 0; r < kTile<T>; r += kLanes<T>)
      _mm_stream_si128(reinterpret_cast<__m128i*>(tile.dst + c * dst_step + r),
                       *reinterpret_cast<const __m128i*>(buffer + c * kTile<T> + r));
}

// Makes streamed stores visible before any signal to another thread that they are done.
void end_stream() { _mm_sfence(); }
#else
constexpr bool kCanStream = false;  // the compiler has no such stores

template <class T>
void write_streamed(const Tile<T>&, std::int64_t, const T*) {}
void end_stream() {}
#endif

template <class T>
void prefetch(const Tile<T>& tile, std::int64_t src_step) {
  for (int r = 0; r < tile.rows; ++r)
    for (int c = 0; c < tile.columns; c += 64 / static_cast<int>(sizeof(T)))
      __builtin_prefetch(tile.src + r * src_step + c);
}

// All tiles of all matrices, in the order of dst's rows.
template <class T>
class Tiling {
 public:
  Tiling(const LoopNest<2>& nest, unsigned across, T* dst, const T* src)
      : dst_(dst),
        src_(src),
        rows_(nest.row_extent()),
        columns_(nest.extents[across]),
        dst_step_(nest.strides[across][0]),
        src_step_(nest.row_strides()[1]) {
    for (unsigned i = 0; i + 1 < static_cast<unsigned>(nest.axes); ++i)
      if (i != across) append_axis(nest.extents[i], nest.strides[i]);
    append_axis(1, {});  // so that each matrix is a row of the nest
  }

  std::int64_t dst_step() const { return dst_step_; }
  std::int64_t src_step() const { return src_step_; }
  std::int64_t size() const { return matrices_.num_rows() * row_tiles_ * column_tiles_; }
  std::int64_t bytes() const {
    return matrices_.num_rows() * rows_ * columns_ * static_cast<std::int64_t>(sizeof(T));
  }

  bool can_stream() const {
    auto bits = reinterpret_cast<std::uintptr_t>(dst_);
    bits |= static_cast<std::uintptr_t>(dst_step_) * sizeof(T);
    for (unsigned i = 0; i < static_cast<unsigned>(matrices_.axes); ++i)
      bits |= static_cast<std::uintptr_t>(matrices_.strides[i][0]) * sizeof(T);
    return bits % 16 == 0;
  }

  Tile<T> operator[](std::int64_t t) const {
    const std::int64_t row = t % row_tiles_ * kTile<T>;
    const std::int64_t column = t / row_tiles_ % column_tiles_ * kTile<T>;
    const auto offsets = matrices_.row_offsets(t / row_tiles_ / column_tiles_);
    return {dst_ + offsets[0] + column * dst_step_ + row,
            src_ + offsets[1] + row * src_step_ + column,
            static_cast<int>(std::min<std::int64_t>(kTile<T>, rows_ - row)),
            static_cast<int>(std::min<std::int64_t>(kTile<T>, columns_ - column))};
  }

 private:
  void append_axis(std::int64_t extent, const LoopNest<2>::Offsets& strides) {
    const auto axis = static_cast<unsigned>(matrices_.axes++);
    matrices_.extents[axis] = extent;
    matrices_.strides[axis] = strides;
  }

  LoopNest<2> matrices_;
  T* dst_;
  const T* src_;
  std::int64_t rows_, columns_, dst_step_, src_step_;
  std::int64_t row_tiles_ = (rows_ + kTile<T> - 1) / kTile<T>;
  std::int64_t column_tiles_ = (columns_ + kTile<T> - 1) / kTile<T>;
};

template <class T>
void transpose_tiles(const Tiling<T>& tiling, bool streamed, std::int64_t begin, std::int64_t end) {
  alignas(64) T buffer[kTile<T> * kTile<T>];
  for (std::int64_t t = begin; t < end; ++t) {
    const Tile<T> tile = tiling[t];
    if (streamed && t + 1 < end) prefetch(tiling[t + 1], tiling.src_step());
    read_transposed(buffer, tile, tiling.src_step());
    if (streamed && tile.rows == kTile<T>)
      write_streamed(tile, tiling.dst_step(), buffer);
    else
      write_cached(tile, tiling.dst_step(), buffer);
  }
  end_stream();
}

}  // namespace

template <class T>
void transpose(const LoopNest<2>& nest, unsigned across, T* dst, const T* src) {
  const Tiling<T> tiling(nest, across, dst, src);
  const bool streamed = kCanStream && tiling.bytes() >= kStreamedBytes && tiling.can_stream();
  const std::int64_t grain =
      std::max<std::int64_t>(1, tiling.size() * kBytesPerThread / (tiling.bytes() + 1));
  parallel_for(tiling.size(), grain, [&](std::int64_t begin, std::int64_t end) {
    transpose_tiles(tiling, streamed, begin, end);
  });
}

template void transpose(const LoopNest<2>&, unsigned, std::uint8_t*, const std::uint8_t*);
template void transpose(const LoopNest<2>&, unsigned, std::uint16_t*, const std::uint16_t*);
template void transpose(const LoopNest<2>&, unsigned, std::uint32_t*, const std::uint32_t*);
template void transpose(const LoopNest<2>&, unsigned, std::uint64_t*, const std::uint64_t*);

}  // namespace ringrad::kernels::cpu
