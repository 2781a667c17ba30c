// Transforms: functions applied to a batch's input between the dataset and the model.
//
//     {random_crop({28, 28}, 2), random_horizontal_flip(), normalize({0.286f}, {0.353f})}
//      uint8  ------------------> uint8 ------------------> uint8 -----------------> float32
//
// Order matters for speed: moving pixels costs a quarter while they are bytes, and normalize
// converts and scales in one pass.
//
// A transform is a pure function of the batch and of the samples it holds. Random transforms draw
// from a separate stream for each sample, keyed by seed, epoch, index and, where a sampler draws an
// index again, the number of its draws before: a sample is cropped the same way in any batch and in
// any thread, and another way each time it is drawn.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ringrad/core/base/error.h"
#include "ringrad/core/random/random.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// Which samples a batch holds.
struct SampleKeys {
  std::span<const std::int64_t> indices;
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  /// How often the epoch drew each index before (Sampler::earlier_draws); empty for never.
  std::span<const std::int64_t> earlier_draws = {};

  /// The random numbers of the sample at `position` of the batch.
  Generator generator(std::size_t position) const;
};

/// Several threads may call a transform at once; it does not change its input. The transforms below
/// throw DeviceError unless the input is on a CPU.
using Transform = std::function<Tensor(const Tensor& input, const SampleKeys& keys, Where where)>;

/// For transforms that use the keys. Throws ShapeError unless the batch holds one sample per index.
void check_one_key_per_sample(const char* operation, const Tensor& batch, const SampleKeys& keys,
                              Where where);

/// Applies all transforms in turn; each draws its own random numbers.
/// Throws:  ShapeError unless the batch before and after each transform has one sample per index
Tensor apply(std::span<const Transform> transforms, Tensor input, const SampleKeys& keys,
             Where where = Where::current());

/// Scales each channel to mean 0 and deviation 1, given the mean and deviation of the data.
///
///   y = (x - mean[c]) / deviation[c],    for uint8   y = (x / 255 - mean[c]) / deviation[c]
///
/// Shapes:  x (B, C, ...) contiguous; mean and deviation hold C numbers, or one for all
/// DTypes:  uint8, float32  ->  float32
/// Throws:  ValueError at once unless mean and deviation have equally many numbers, at least one,
///          all finite, and every deviation is positive; ShapeError or DTypeError later if a batch
///          does not fit
Transform normalize(std::vector<float> mean, std::vector<float> deviation,
                    Where where = Where::current());

/// The window of a random crop, in pixels.
struct CropSize {
  std::int64_t height, width;
};

/// Crops a window at a random place of each image, after adding `padding` zeros on all four sides.
///
/// Shapes:  (B, C, H, W) contiguous  ->  (B, C, size.height, size.width)
/// DTypes:  all
/// Throws:  ValueError at once unless size is positive and padding is not negative; ShapeError
///          later if the window exceeds the padded image
Transform random_crop(CropSize size, std::int64_t padding = 0, Where where = Where::current());

/// Mirrors each image left to right with the given probability.
///
/// Shapes:  (B, C, H, W) contiguous, or any other (B, ..., W)
/// DTypes:  all
/// Throws:  ValueError at once unless 0 <= probability <= 1; ShapeError later for fewer than 2 axes
Transform random_horizontal_flip(double probability = 0.5, Where where = Where::current());

}  // namespace ringrad
