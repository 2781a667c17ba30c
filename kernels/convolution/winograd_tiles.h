// How winograd.cc cuts images into tiles. Private to kernels/convolution.

#pragma once

#include <cstdint>

#include "ringrad/core/simd.h"
#include "ringrad/kernels/register_tile.h"

namespace ringrad::kernels::winograd {

using Vec = Vector<float>;
constexpr int kLanes = Vec::kLanes;
constexpr int kOutputs = 4, kTaps = 3, kInputs = kOutputs + kTaps - 1;
constexpr std::int64_t kBlock = 32;  // tiles multiplied together

/// An image (B, rows, columns, channels) and its window for each tile: the windows start 4 pixels
/// apart, the first at (-offset_h, -offset_w).
struct Image {
  std::int64_t B, rows, columns, channels;
  std::int64_t offset_h = 0, offset_w = 0;
};

/// The tiles of an output image, numbered row by row.
struct Tiles {
  explicit Tiles(const Image& y)
      : rows((y.rows + kOutputs - 1) / kOutputs),
        columns((y.columns + kOutputs - 1) / kOutputs),
        count(y.B * rows * columns),
        blocks((count + kBlock - 1) / kBlock) {}

  struct Position {
    std::int64_t b, h, w;
  };
  Position position(std::int64_t tile) const {
    return {tile / (rows * columns), tile / columns % rows * kOutputs, tile % columns * kOutputs};
  }

  std::int64_t rows, columns, count, blocks;
};

/// The windows of a block's tiles, as pointers to their pixels. Outside of the image, and for tiles
/// after the last one, the pointers are `zeros`.
template <int kSize>
struct Windows {
  using Window = const float* [kSize][kSize];

  Windows(const Image& image, const float* pixels, const Tiles& tiles, std::int64_t block,
          const float* zeros)
      : channels(image.channels) {
    for (std::int64_t t = 0; t < kBlock; ++t) {
      const std::int64_t tile = block * kBlock + t;
      const auto [b, h0, w0] = tiles.position(tile);
      for (int i = 0; i < kSize; ++i) {
        const std::int64_t h = h0 - image.offset_h + i, w = w0 - image.offset_w;
        const bool has_row = tile < tiles.count && h >= 0 && h < image.rows;
        const std::int64_t start = (b * image.rows + h) * image.columns + w;
        for (int j = 0; j < kSize; ++j)
          at[t][i][j] = has_row && w + j >= 0 && w + j < image.columns
                            ? pixels + (start + j) * channels
                            : zeros;
      }
    }
  }

  std::int64_t channels;
  Window at[kBlock];
};

/// A tile's window of an image, which begins at pixel (h, w) of example b.
struct WindowOf {
  WindowOf(const Image& image, const float* pixels, const Tiles::Position& at)
      : image(image), pixels(pixels), b(at.b), h(at.h - image.offset_h), w(at.w - image.offset_w) {}

  bool has(std::int64_t i, std::int64_t j) const {
    return h + i >= 0 && h + i < image.rows && w + j >= 0 && w + j < image.columns;
  }
  /// REQUIRES: has(i, j)
  const float* at(std::int64_t i, std::int64_t j) const {
    return pixels + ((b * image.rows + h + i) * image.columns + w + j) * image.channels;
  }

  const Image& image;
  const float* pixels;
  std::int64_t b, h, w;
};

/// Describes how to read a filter (K, C, 3, 3) as (from, to, 3, 3): strides, and whether taps run
/// backwards.
struct FilterView {
  std::int64_t from, to;  // channels
  std::int64_t from_stride, to_stride;
  bool turned;
};

}  // namespace ringrad::kernels::winograd
