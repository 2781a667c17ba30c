#include "ringrad/data/image/image.h"

#include <png.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ringrad/core/file/atomic_file.h"
#include "ringrad/core/untrusted/quoted_bytes.h"
#include "ringrad/data/file_reader.h"
#include "ringrad/data/image/decode.h"

namespace ringrad {
namespace {

std::vector<std::byte> read_file(const std::filesystem::path& path, std::int64_t most_bytes,
                                 Where where) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  FileReader file("read_image", path, where);
  std::vector<std::byte> bytes;
  for (;;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + std::max(kPiece, size));
    const std::size_t got = file.read(std::span(bytes).subspan(size));
    const bool has_ended = got < bytes.size() - size;
    bytes.resize(size + got);
    if (std::ssize(bytes) > most_bytes)
      file.fail(concat("must have at most ", most_bytes, " bytes"), "more");
    if (has_ended) return bytes;
  }
}

// The weights of ITU-R BT.601, in units of 2^-16.
constexpr std::uint8_t gray_of(unsigned red, unsigned green, unsigned blue) {
  constexpr unsigned kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1u << 15;
  static_assert(kRed + kGreen + kBlue == 1u << 16);
  return static_cast<std::uint8_t>((kRed * red + kGreen * green + kBlue * blue + kHalf) >> 16);
}

// (H, W, C) -> (C', H, W)
Tensor planes(const Tensor& samples, Channels channels, Where where) {
  const std::int64_t height = samples.shape()[0], width = samples.shape()[1];
  const std::int64_t stored = samples.shape()[2], area = height * width;
  const std::int64_t count = channels == Channels::stored ? stored
                             : channels == Channels::gray ? 1
                                                          : 3;
  const Tensor result =
      empty({count, height, width}, {.dtype = DType::uint8, .device = Device()}, where);
  const std::uint8_t* from = samples.data<const std::uint8_t>();
  std::uint8_t* to = result.data<std::uint8_t>();
  const bool has_colors = stored >= 3;
  if (channels == Channels::gray && has_colors) {
    for (std::int64_t i = 0; i < area; ++i, from += stored)
      to[i] = gray_of(from[0], from[1], from[2]);
    return result;
  }
  for (std::int64_t c = 0; c < count; ++c) {
    const std::int64_t source = channels == Channels::rgb && !has_colors ? 0 : c;
    for (std::int64_t i = 0; i < area; ++i) *to++ = from[i * stored + source];
  }
  return result;
}

Tensor decode(const EncodedImage& image, const ImageOptions& options) {
  const bool is_png = begins_as_png(image.bytes);
  if (!is_png && !begins_as_jpeg(image.bytes)) {
    const auto front = image.bytes.first(std::min<std::size_t>(image.bytes.size(), 8));
    image.fail("must begin as a PNG or JPEG file does",
               quoted_bytes({reinterpret_cast<const char*>(front.data()), front.size()}));
  }
  const Tensor samples =
      is_png ? decode_png(image, options.most_pixels) : decode_jpeg(image, options.most_pixels);
  return planes(samples, options.channels, image.where);
}

}  // namespace

Tensor read_image(const std::filesystem::path& path, const ImageOptions& options, Where where) {
  const std::vector<std::byte> bytes = read_file(path, options.most_file_bytes, where);
  return decode({bytes, "read_image", path.string(), where}, options);
}

Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options,
                    const std::string& name, Where where) {
  const EncodedImage image{bytes, "decode_image", name, where};
  if (std::ssize(bytes) > options.most_file_bytes)
    image.fail(concat("must have at most ", options.most_file_bytes, " bytes"), bytes.size());
  return decode(image, options);
}

void write_png(const std::filesystem::path& path, const Tensor& image, Where where) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  RINGRAD_CHECK(image.dtype(where) == DType::uint8, DTypeError, where,
                "write_png: the image must be uint8; got ", image.dtype());
  check_cpu("write_png", image.device(), where);
  const Shape& shape = image.shape();
  constexpr std::int64_t kMostExtent = 1'000'000;  // libpng's
  const bool fits = shape.size() == 3 && shape[0] >= 1 && shape[0] <= std::ssize(kFormats) &&
                    std::min(shape[1], shape[2]) >= 1 &&
                    std::max(shape[1], shape[2]) <= kMostExtent;
  RINGRAD_CHECK(fits, ShapeError, where, "write_png: the image must have 1 to 4 channels and 1 to ",
                kMostExtent, " rows and columns; got ", shape);
  std::vector<std::uint8_t> samples;
  samples.reserve(static_cast<std::size_t>(image.numel()));
  const Strides& strides = image.strides();
  const std::uint8_t* from = image.data<const std::uint8_t>();
  for (std::int64_t y = 0; y < shape[1]; ++y)
    for (std::int64_t x = 0; x < shape[2]; ++x)
      for (std::int64_t c = 0; c < shape[0]; ++c)
        samples.push_back(from[c * strides[0] + y * strides[1] + x * strides[2]]);
  png_image facts{};
  facts.version = PNG_IMAGE_VERSION;
  facts.height = static_cast<png_uint_32>(shape[1]);
  facts.width = static_cast<png_uint_32>(shape[2]);
  facts.format = kFormats[shape[0] - 1];
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(facts), '\0');
  png_alloc_size_t size = bytes.size();
  const bool is_made =
      png_image_write_to_memory(&facts, bytes.data(), &size, 0, samples.data(), 0, nullptr) != 0;
  const std::string reason = facts.message;
  png_image_free(&facts);
  RINGRAD_CHECK(is_made, DataError, where, "write_png: ", path.string(), " must be writable; got ",
                reason);
  write_file("write_png", path, std::string_view(bytes).substr(0, size), where);
}

}  // namespace ringrad
