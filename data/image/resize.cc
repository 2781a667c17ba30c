#include "ringrad/data/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace ringrad {
namespace {

// Weights are integers, in units of 2^-22: a sum of weighted bytes has 31 bits.
constexpr int kFractionBits = 22;
constexpr std::int32_t kOne = std::int32_t{1} << kFractionBits;

// The input pixels that one output pixel is a mean of.
struct Window {
  std::int64_t first;
  std::vector<std::int32_t> weights;
};

std::vector<Window> windows(std::int64_t input, std::int64_t output) {
  const double scale = static_cast<double>(input) / static_cast<double>(output);
  const double reach = std::max(scale, 1.);
  std::vector<Window> result;
  for (std::int64_t i = 0; i < output; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = static_cast<std::int64_t>(std::max(0., center - reach + 0.5));
    const auto last = std::min(input, static_cast<std::int64_t>(center + reach + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t at = first; at < last; ++at) {
      const double distance = std::abs(static_cast<double>(at) - center + 0.5) * (1 / reach);
      weights.push_back(std::max(0., 1 - distance));
      sum += weights.back();
    }
    Window window{first, {}};
    for (const double weight : weights)
      window.weights.push_back(static_cast<std::int32_t>(weight / sum * kOne + 0.5));
    result.push_back(std::move(window));
  }
  return result;
}

std::uint8_t byte_of(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::min(sum >> kFractionBits, 255));
}

// (rows, from) -> (rows, windows)
void resize_columns(const std::uint8_t* from, std::int64_t rows, std::int64_t width,
                    const std::vector<Window>& windows, std::uint8_t* to) {
  for (std::int64_t row = 0; row < rows; ++row, from += width)
    for (const Window& window : windows) {
      std::int32_t sum = kOne / 2;
      const std::uint8_t* pixel = from + window.first;
      for (const std::int32_t weight : window.weights) sum += weight * *pixel++;
      *to++ = byte_of(sum);
    }
}

// (from, width) -> (windows, width)
void resize_rows(const std::uint8_t* from, std::int64_t width, const std::vector<Window>& windows,
                 std::uint8_t* to) {
  std::vector<std::int32_t> sums(static_cast<std::size_t>(width));
  for (const Window& window : windows) {
    std::fill(sums.begin(), sums.end(), kOne / 2);
    const std::uint8_t* pixel = from + window.first * width;
    for (const std::int32_t weight : window.weights)
      for (std::int32_t& sum : sums) sum += weight * *pixel++;
    to = std::transform(sums.begin(), sums.end(), to, byte_of);
  }
}

}  // namespace

Tensor resize(const Tensor& image, CropSize size, Where where) {
  RINGRAD_CHECK(image.dtype(where) == DType::uint8, DTypeError, where,
                "resize: the image must be uint8; got ", image.dtype());
  check_cpu("resize", image.device(), where);
  RINGRAD_CHECK(size.height > 0 && size.width > 0, ValueError, where,
                "resize: the size must be positive; got (", size.height, ", ", size.width, ")");
  RINGRAD_CHECK(image.dims() >= 2 && image.is_contiguous() && image.numel() > 0, ShapeError, where,
                "resize: the image must be (.., H, W), contiguous and not empty; got shape ",
                image.shape(), " and strides ", image.strides());
  const int last = image.dims() - 1;
  const std::int64_t height = image.shape()[last - 1], width = image.shape()[last];
  Shape narrow = image.shape();
  narrow[last] = size.width;
  const Options options{.dtype = DType::uint8, .device = image.device()};
  const Tensor columns = empty(narrow, options, where);
  const std::int64_t planes = image.numel() / (height * width);
  resize_columns(image.data<const std::uint8_t>(), planes * height, width,
                 windows(width, size.width), columns.data<std::uint8_t>());
  Shape shape = narrow;
  shape[last - 1] = size.height;
  const Tensor result = empty(shape, options, where);
  const auto rows = windows(height, size.height);
  for (std::int64_t plane = 0; plane < planes; ++plane)
    resize_rows(columns.data<const std::uint8_t>() + plane * height * size.width, size.width, rows,
                result.data<std::uint8_t>() + plane * size.height * size.width);
  return result;
}

}  // namespace ringrad
