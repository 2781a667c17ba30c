// Decoders of PNG and JPEG files. None of a file's bytes is trusted.
//
//     bytes --libpng, libjpeg-turbo--> (H, W, C) uint8 --image.cc--> (C, H, W)
//
// Both libraries report an error by a longjmp out of their own code, which must not skip a C++
// destructor. So every function that calls them is one frame without objects that have a
// destructor. After an error it returns false, and its reader keeps the message.
//
// Before a decoder allocates an image, it checks that the file is long enough for it. What a PNG
// inflates to is at most 1032 times its size, and a JPEG has a bit or more for each block of 8 x 8
// samples.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// The bytes of an image file, and the words of its errors.
struct EncodedImage {
  std::span<const std::byte> bytes;
  std::string operation, name;
  Where where;

  /// Throws DataError "<operation>: <name> <rule>; got <facts>".
  template <class... Facts>
  [[noreturn]] void fail(const std::string& rule, const Facts&... facts) const {
    throw DataError(concat(operation, ": ", name, ' ', rule, "; got ", facts...), where);
  }

  void check_size(std::int64_t height, std::int64_t width, std::int64_t most_pixels) const {
    if (height > most_pixels / width)
      fail(concat("must have at most ", most_pixels, " pixels"), height, " x ", width);
  }
};

bool begins_as_png(std::span<const std::byte> bytes);
bool begins_as_jpeg(std::span<const std::byte> bytes);

/// Samples side by side, (H, W, C): C is 1 for gray, 3 for colors, and one more with transparency.
/// Palettes become colors, 1, 2 or 4 bits are scaled to 8, and 16 bits are cut to their upper 8.
/// Throws:  DataError
Tensor decode_png(const EncodedImage& image, std::int64_t most_pixels);

/// Samples side by side, (H, W, C): C is 1 for gray and 3 for colors, also those of CMYK.
/// Throws:  DataError, also where the library would guess missing or damaged pixels
Tensor decode_jpeg(const EncodedImage& image, std::int64_t most_pixels);

}  // namespace ringrad
