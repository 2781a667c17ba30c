#include "ringrad/kernels/convolution/winograd_uneven.h"

#include <algorithm>
#include <bit>

#include "ringrad/core/tensor.h"
#include "ringrad/kernels/parallel_for.h"

namespace ringrad::kernels::winograd {
namespace {

constexpr float kEven = 32;
constexpr float kSmallest = 1e-18f, kLargest = 1e12f;

// Magnitudes are compared as integers by their bits, whose order is that of numbers without a sign.
// Then infinity is larger than every number, and a NaN is larger than infinity.
using Bits = Vector<std::int32_t>::type;
constexpr std::int32_t kAllButSign = 0x7fffffff;

[[gnu::always_inline]] inline void raise_to(Bits& largest, const float* values) {
  const Bits bits = *reinterpret_cast<const Bits*>(values) & kAllButSign;
  largest = bits > largest ? bits : largest;
}

[[gnu::always_inline]] inline float largest_lane(const Bits& bits) {
  std::int32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int lane = 0; lane < kLanes; ++lane) largest = std::max(largest, bits[lane]);
  return std::bit_cast<float>(largest);
}

RINGRAD_AVX512_CLONES float largest_of(const float* values, std::int64_t size) {
  Bits largest{};
  for (std::int64_t i = 0; i < size; i += kLanes) raise_to(largest, values + i);
  return largest_lane(largest);
}

bool is_usual(float magnitude) {
  return magnitude == 0 || (magnitude >= kSmallest && magnitude <= kLargest);
}

// What a few instructions tell about a window. It is divided into cells of 2x2 pixels:
//
//     a a b b c c     three rows and columns of it hold a whole cell, wherever they lie. So if each
//     a a b b c c     cell has a large magnitude, then each output's window has one. It suffices
//     d d e e f f     that one lane has a large magnitude in every cell.
struct Glance {
  float largest;   // of all magnitudes
  float in_cells;  // every cell has a magnitude that is at least as large

  bool is_even() const { return in_cells * kEven >= largest; }
};

// The outputs' windows are those of `height` x `width` outputs: cells beyond need not be large.
template <int kSize>
RINGRAD_AVX512_CLONES Glance glance_at(const Windows<kSize>& windows, std::int64_t tile, int height,
                                       int width) {
  constexpr int kCells = kSize / 2;
  const auto& window = windows.at[tile];
  Bits cells[kCells][kCells] = {};
  for (std::int64_t c = 0; c < windows.channels; c += kLanes)
#pragma GCC unroll 6
    for (int i = 0; i < kSize; ++i)
#pragma GCC unroll 6
      for (int j = 0; j < kSize; ++j) raise_to(cells[i / 2][j / 2], window[i][j] + c);
  Bits high{}, low = Bits{} + kAllButSign;
#pragma GCC unroll 3
  for (int i = 0; i < kCells; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kCells; ++j) {
      high = cells[i][j] > high ? cells[i][j] : high;
      if (2 * i <= height && 2 * j <= width) low = cells[i][j] < low ? cells[i][j] : low;
    }
  Glance glance{largest_lane(high), largest_lane(low)};
  if (glance.is_even()) return glance;
  glance.in_cells = glance.largest;  // lanes of many zeros: each cell may have its value in another
  for (int i = 0; i < kCells && 2 * i <= height; ++i)
    for (int j = 0; j < kCells && 2 * j <= width; ++j)
      glance.in_cells = std::min(glance.in_cells, largest_lane(cells[i][j]));
  return glance;
}

// The largest magnitude of each pixel of a window; -1 outside of the image.
template <int kSize>
struct Magnitudes {
  explicit Magnitudes(const WindowOf& window) {
    for (int i = 0; i < kSize; ++i)
      for (int j = 0; j < kSize; ++j)
        at[i][j] = window.has(i, j) ? largest_of(window.at(i, j), window.image.channels) : -1;
  }
  float at[kSize][kSize];
};

// The number of a tile's rows or columns of outputs that lie inside the image.
int inside(std::int64_t extent, std::int64_t begin) {
  return static_cast<int>(std::min<std::int64_t>(kOutputs, extent - begin));
}

bool are_outputs_uneven(const Glance& glance, const WindowOf& x, int height, int width) {
  if (!is_usual(glance.largest)) return true;
  if (glance.is_even()) return false;
  const Magnitudes<kInputs> pixel(x);
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; ++j) {
      float largest = 0;
      for (int tap = 0; tap < kTaps * kTaps; ++tap)
        largest = std::max(largest, pixel.at[i + tap / kTaps][j + tap % kTaps]);
      if (largest * kEven < glance.largest) return true;
    }
  return false;
}

bool are_products_uneven(const Glance& of_x, const Glance& of_y, const WindowOf& x,
                         const WindowOf& grad_y, int height, int width) {
  if (!is_usual(of_x.largest) || !is_usual(of_y.largest)) return true;
  // A window of two rows may lie across two cells.
  if (height > 2 && width > 2 && of_x.is_even() && of_y.is_even()) return false;
  const Magnitudes<kInputs> pixel(x);
  const Magnitudes<kOutputs> gradient(grad_y);
  for (int tap = 0; tap < kTaps * kTaps; ++tap) {
    float largest = -1;  // no product at all, if the tap meets padding only
    for (int i = 0; i < height; ++i)
      for (int j = 0; j < width; ++j)
        if (const float value = pixel.at[i + tap / kTaps][j + tap % kTaps]; value >= 0)
          largest = std::max(largest, value * gradient.at[i][j]);
    if (largest >= 0 && largest * kEven < of_x.largest * of_y.largest) return true;
  }
  return false;
}

// c (R, N) += a (R, depth) * b (depth, N)
template <int R>
RINGRAD_AVX512_CLONES void add_product(std::int64_t N, std::int64_t depth, Operand<float> a,
                                       const float* b, float* c) {
  std::int64_t j = 0;
  for (; j + 2 * kLanes <= N; j += 2 * kLanes)
    multiply_tile<float, R, 2, true>(depth, a, b + j, N, c + j, N);
  for (; j < N; j += kLanes) multiply_tile<float, R, 1, true>(depth, a, b + j, N, c + j, N);
}

// The columns [begin, end) of outputs whose pixel j + s lies inside the image.
struct Columns {
  Columns(const WindowOf& window, int width, int s)
      : begin(std::max<std::int64_t>(0, -(window.w + s))),
        end(std::min<std::int64_t>(width, window.image.columns - (window.w + s))) {}
  std::int64_t begin, end;
};

// filter: (9, C, K)
void convolve_tile(const WindowOf& x, const float* filter, const float* bias, const Image& y,
                   float* y_pixels, const Tiles::Position& at) {
  const std::int64_t C = x.image.channels, K = y.channels;
  const int height = inside(y.rows, at.h), width = inside(y.columns, at.w);
  for (int i = 0; i < height; ++i) {
    float* row = y_pixels + ((at.b * y.rows + at.h + i) * y.columns + at.w) * K;
    for (int j = 0; j < width; ++j)
      bias ? std::copy_n(bias, K, row + j * K) : std::fill_n(row + j * K, K, 0.f);
    for (int tap = 0; tap < kTaps * kTaps; ++tap) {
      const int r = tap / kTaps, s = tap % kTaps;
      if (x.h + i + r < 0 || x.h + i + r >= x.image.rows) continue;
      const auto [begin, end] = Columns(x, width, s);
      const float* weights = filter + tap * C * K;
      if (end - begin == 4)
        add_product<4>(K, C, {x.at(i + r, s), C, 1}, weights, row);
      else
        for (std::int64_t j = begin; j < end; ++j)
          add_product<1>(K, C, {x.at(i + r, j + s), C, 1}, weights, row + j * K);
    }
  }
}

// sum (16, K) += the products of one tap for input channels [c, c + 16).
void add_tile_products(const WindowOf& x, const WindowOf& grad_y, int tap, std::int64_t c,
                       float* sum) {
  const std::int64_t C = x.image.channels, K = grad_y.image.channels;
  const int height = inside(grad_y.image.rows, grad_y.h);
  const int width = inside(grad_y.image.columns, grad_y.w);
  const int r = tap / kTaps, s = tap % kTaps;
  const auto [begin, end] = Columns(x, width, s);
  if (begin >= end) return;
  for (int i = 0; i < height; ++i) {
    if (x.h + i + r < 0 || x.h + i + r >= x.image.rows) continue;
    for (std::int64_t part = 0; part < kLanes; part += 4)
      add_product<4>(K, end - begin, {x.at(i + r, begin + s) + c + part, 1, C}, grad_y.at(i, begin),
                     sum + part * K);
  }
}

}  // namespace

bool is_usual_filter(const float* weight, std::int64_t size) {
  return is_usual(largest_of(weight, size));
}

void UnevenTiles::mark_outputs(std::int64_t block, const Windows<kInputs>& windows, const Image& x,
                               const float* x_pixels, const Image& y) {
  if (all_) return;
  const std::int64_t first = block * kBlock, count = std::min(kBlock, tiles_.count - first);
  for (std::int64_t t = 0; t < count; ++t) {
    const Tiles::Position at = tiles_.position(first + t);
    const int height = inside(y.rows, at.h), width = inside(y.columns, at.w);
    marks_[static_cast<std::size_t>(first + t)] = are_outputs_uneven(
        glance_at(windows, t, height, width), WindowOf(x, x_pixels, at), height, width);
  }
}

void UnevenTiles::mark_products(std::int64_t block, const Windows<kInputs>& windows, const Image& x,
                                const float* x_pixels, const Windows<kOutputs>& windows_of_y,
                                const Image& y, const float* grad_y) {
  const std::int64_t first = block * kBlock, count = std::min(kBlock, tiles_.count - first);
  for (std::int64_t t = 0; t < count; ++t) {
    const Tiles::Position at = tiles_.position(first + t);
    const int height = inside(y.rows, at.h), width = inside(y.columns, at.w);
    marks_[static_cast<std::size_t>(first + t)] = are_products_uneven(
        glance_at(windows, t, height, width), glance_at(windows_of_y, t, height - 1, width - 1),
        WindowOf(x, x_pixels, at), WindowOf(y, grad_y, at), height, width);
  }
}

std::vector<std::int64_t> UnevenTiles::list() const {
  std::vector<std::int64_t> list;
  for (std::int64_t tile = 0; tile < tiles_.count; ++tile)
    if ((*this)[tile]) list.push_back(tile);
  return list;
}

void convolve_directly(const std::vector<std::int64_t>& list, const Tiles& tiles, const Image& x,
                       const float* x_pixels, const FilterView& view, const float* weight,
                       const float* bias, const Image& y, float* y_pixels, Where where) {
  if (list.empty()) return;
  constexpr int kSize = kTaps * kTaps;
  const Tensor memory = empty({kSize, view.from, view.to}, {}, where);
  float* filter = memory.data<float>();
  for (int tap = 0; tap < kSize; ++tap)
    for (std::int64_t c = 0; c < view.from; ++c)
      for (std::int64_t k = 0; k < view.to; ++k)
        *filter++ = weight[c * view.from_stride + k * view.to_stride +
                           (view.turned ? kSize - 1 - tap : tap)];
  parallel_for(std::ssize(list), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Tiles::Position at = tiles.position(list[static_cast<std::size_t>(i)]);
      convolve_tile(WindowOf(x, x_pixels, at), memory.data<float>(), bias, y, y_pixels, at);
    }
  });
}

void add_products_directly(const std::vector<std::int64_t>& list, const Tiles& tiles,
                           const Image& x, const float* x_pixels, const Image& y,
                           const float* grad_y, float* grad_weight) {
  if (list.empty()) return;
  constexpr std::int64_t kSize = kTaps * kTaps, kFew = 32;
  const std::int64_t C = x.channels, K = y.channels;
  parallel_for(kSize * C / kLanes, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sum(static_cast<std::size_t>(kLanes * K));
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t tap = unit % kSize, c = unit / kSize * kLanes;
      for (std::size_t first = 0; first < list.size();
           first += kFew) {  // short chains of additions
        std::fill(sum.begin(), sum.end(), 0.f);
        for (std::size_t i = first; i < std::min(first + kFew, list.size()); ++i) {
          const Tiles::Position at = tiles.position(list[i]);
          add_tile_products(WindowOf(x, x_pixels, at), WindowOf(y, grad_y, at),
                            static_cast<int>(tap), c, sum.data());
        }
        for (std::int64_t i = 0; i < kLanes * K; ++i)
          grad_weight[(i % K * C + c + i / K) * kSize + tap] += sum[static_cast<std::size_t>(i)];
      }
    }
  });
}

}  // namespace ringrad::kernels::winograd
