#include <algorithm>
#include <cstring>

#include "ringrad/data/random_stream.h"
#include "ringrad/data/transform.h"

namespace ringrad {
namespace {

// One axis of a window: `before` zeros, then `copied` pixels of the image from `source` on, then
// zeros up to the size of the window.
struct Overlap {
  std::int64_t before, source, copied;
};

// The overlap of an image [0, image) with a window [start, start + window).
Overlap overlap(std::int64_t image, std::int64_t start, std::int64_t window) {
  const std::int64_t first = std::clamp<std::int64_t>(start, 0, image);
  const std::int64_t last = std::clamp<std::int64_t>(start + window, 0, image);
  const std::int64_t before = std::clamp<std::int64_t>(-start, 0, window);
  return {before, first, last - first};
}

class RandomCrop {
 public:
  RandomCrop(CropSize size, std::int64_t padding) : size_(size), padding_(padding) {}

  Tensor operator()(const Tensor& x, const SampleKeys& keys, Where where) const {
    check_one_key_per_sample("random_crop", x, keys, where);
    check(x, where);
    const Shape& in = x.shape();
    const Tensor y = empty({in[0], in[1], size_.height, size_.width},
                           {.dtype = x.dtype(), .device = x.device()}, where);
    const auto unit = static_cast<std::int64_t>(size_bytes(x.dtype()));
    const std::byte* from = x.raw_data();
    std::byte* to = y.raw_data();
    for (std::int64_t b = 0; b < in[0]; ++b) {
      Generator generator = keys.generator(static_cast<std::size_t>(b));
      const Overlap rows = overlap(in[2], draw_start(in[2], size_.height, generator), size_.height);
      const Overlap columns =
          overlap(in[3], draw_start(in[3], size_.width, generator), size_.width);
      for (std::int64_t c = 0; c < in[1]; ++c) {
        copy_window(from, in[3] * unit, rows, columns, unit, to);
        from += in[2] * in[3] * unit;
        to += size_.height * size_.width * unit;
      }
    }
    return y;
  }

 private:
  void check(const Tensor& x, Where where) const {
    check_cpu("random_crop", x.device(), where);
    RINGRAD_CHECK(x.dims() == 4 && x.is_contiguous(), ShapeError, where,
                  "random_crop: the batch must be (B, C, H, W) and contiguous; got shape ",
                  x.shape(), " and strides ", x.strides());
    const bool fits =
        size_.height - x.shape()[2] <= 2 * padding_ && size_.width - x.shape()[3] <= 2 * padding_;
    RINGRAD_CHECK(fits, ShapeError, where, "random_crop: the window must fit into the image with ",
                  padding_, " zeros on each side; got a window of (", size_.height, ", ",
                  size_.width, ") and a batch of shape ", x.shape());
  }

  // The first pixel of the window, relative to the first pixel of the image.
  std::int64_t draw_start(std::int64_t image, std::int64_t window, Generator& generator) const {
    const std::int64_t places = image + 2 * padding_ - window + 1;
    return static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(places))) -
           padding_;
  }

  // Copies one channel of one image. `unit` is the size of a pixel in bytes, and rows of the image
  // are `pitch` bytes apart.
  void copy_window(const std::byte* from, std::int64_t pitch, Overlap rows, Overlap columns,
                   std::int64_t unit, std::byte* to) const {
    const auto bytes = [unit](std::int64_t pixels) {
      return static_cast<std::size_t>(pixels * unit);
    };
    const std::int64_t to_pitch = size_.width * unit;
    const std::int64_t after = size_.width - columns.before - columns.copied;
    std::memset(to, 0, bytes(rows.before * size_.width));
    to += rows.before * to_pitch;
    from += rows.source * pitch + columns.source * unit;
    for (std::int64_t row = 0; row < rows.copied; ++row, from += pitch, to += to_pitch) {
      std::memset(to, 0, bytes(columns.before));
      std::memcpy(to + columns.before * unit, from, bytes(columns.copied));
      std::memset(to + (columns.before + columns.copied) * unit, 0, bytes(after));
    }
    std::memset(to, 0, bytes((size_.height - rows.before - rows.copied) * size_.width));
  }

  CropSize size_;
  std::int64_t padding_;
};

class RandomHorizontalFlip {
 public:
  explicit RandomHorizontalFlip(double probability) : probability_(probability) {}

  Tensor operator()(const Tensor& x, const SampleKeys& keys, Where where) const {
    check_one_key_per_sample("random_horizontal_flip", x, keys, where);
    check_cpu("random_horizontal_flip", x.device(), where);
    RINGRAD_CHECK(
        x.dims() >= 2 && x.is_contiguous(), ShapeError, where,
        "random_horizontal_flip: the batch must be (B, ..., W) and contiguous; got shape ",
        x.shape(), " and strides ", x.strides());
    const Tensor y = empty_like(x, where);
    if (x.numel() == 0) return y;
    dispatch_dtype(x.dtype(), [&]<class T>() {
      const std::int64_t sample = x.numel() / x.shape()[0], width = x.shape().back();
      const T* from = x.data<T>();
      T* to = y.data<T>();
      for (std::size_t b = 0; b < keys.indices.size(); ++b, from += sample, to += sample) {
        Generator generator = keys.generator(b);
        if (draw_unit(generator) >= probability_)
          std::copy_n(from, sample, to);
        else
          for (std::int64_t at = 0; at < sample; at += width)
            std::reverse_copy(from + at, from + at + width, to + at);
      }
    });
    return y;
  }

 private:
  double probability_;
};

}  // namespace

Transform random_crop(CropSize size, std::int64_t padding, Where where) {
  constexpr std::int64_t kMostPadding = 1 << 20;  // keeps the arithmetic on positions in range
  RINGRAD_CHECK(size.height > 0 && size.width > 0, ValueError, where,
                "random_crop: the window must be positive; got (", size.height, ", ", size.width,
                ")");
  RINGRAD_CHECK(padding >= 0 && padding <= kMostPadding, ValueError, where,
                "random_crop: padding must be in [0, ", kMostPadding, "]; got ", padding);
  return RandomCrop(size, padding);
}

Transform random_horizontal_flip(double probability, Where where) {
  RINGRAD_CHECK(probability >= 0 && probability <= 1, ValueError, where,
                "random_horizontal_flip: probability must be in [0, 1]; got ", probability);
  return RandomHorizontalFlip(probability);
}

}  // namespace ringrad
