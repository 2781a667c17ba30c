// Uneven tiles: Winograd's transforms would lose digits in them that the definition keeps.
// Private to kernels/convolution.
//
// A transform adds pixels of the whole window, multiplied by constants, and later subtracts them
// again. So rounding errors of the largest pixel reach every output of the tile, also those whose
// own nine pixels are small, and a NaN or an infinity turns all of them into NaN:
//
//     . . . . . .     one pixel of 10,000 among pixels of 1: the outputs whose windows hold it
//     . . . . # .     are right, but the others' errors are 10,000 times as large as they should be
//     . . . . . .
//
// A tile is even if the largest pixel of each output's window is at least 1/32 of the largest pixel
// of the tile. Pixels are compared by the largest magnitude among their channels. Magnitudes must
// also be 0 or between 1e-18 and 1e12. The transforms multiply by up to 36,100 and by 1/576; within
// this range they neither overflow nor lose digits of small numbers. In the gradient of the filter,
// each tap has a window of its own in x, whose largest product with grad_y is compared.
//
// Uneven tiles (usually there are none) are left out of the matrices and computed here by the
// definition. An uneven tile of 16 channels takes 5 to 13 times as long, one of 64 channels less.

#pragma once

#include <cstdint>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/kernels/convolution/winograd_tiles.h"

namespace ringrad::kernels::winograd {

/// True if a filter's magnitudes are in the range above.
bool is_usual_filter(const float* weight, std::int64_t size);

/// Which tiles are uneven. Threads may mark different blocks at the same time.
class UnevenTiles {
 public:
  explicit UnevenTiles(const Tiles& tiles, bool all = false)
      : tiles_(tiles), marks_(static_cast<std::size_t>(tiles.blocks * kBlock), all), all_(all) {}

  /// Examines the tiles of a block for y = x convolved with a filter.
  void mark_outputs(std::int64_t block, const Windows<kInputs>& windows, const Image& x,
                    const float* x_pixels, const Image& y);
  /// Examines the tiles of a block for the gradient of the filter.
  void mark_products(std::int64_t block, const Windows<kInputs>& windows, const Image& x,
                     const float* x_pixels, const Windows<kOutputs>& windows_of_y, const Image& y,
                     const float* grad_y);

  bool operator[](std::int64_t tile) const { return marks_[static_cast<std::size_t>(tile)] != 0; }
  std::vector<std::int64_t> list() const;

 private:
  const Tiles& tiles_;
  std::vector<std::uint8_t> marks_;
  bool all_;
};

/// y = x convolved with the filter, for the tiles listed.
void convolve_directly(const std::vector<std::int64_t>& list, const Tiles& tiles, const Image& x,
                       const float* x_pixels, const FilterView& view, const float* weight,
                       const float* bias, const Image& y, float* y_pixels, Where where);

/// Adds what the tiles listed contribute to grad_weight (K, C, 3, 3). The result does not depend on
/// the number of threads.
void add_products_directly(const std::vector<std::int64_t>& list, const Tiles& tiles,
                           const Image& x, const float* x_pixels, const Image& y,
                           const float* grad_y, float* grad_weight);

}  // namespace ringrad::kernels::winograd
