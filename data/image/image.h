// Images in PNG and JPEG files.
//
//     const Tensor photo = read_image("cat.jpg");       (3, 480, 640) of uint8
//     const Tensor gray = read_image("scan.png", {.channels = Channels::gray});
//     write_png("sample.png", gray);
//
// The decoders are libpng and libjpeg-turbo, so data/image is a library of its own (//data/image,
// ringrad::image). Pixels are those of the file: gamma, color profiles and the orientation that a
// camera notes are ignored, as PIL and torchvision ignore them.
//
// Files may be hostile. Nothing is allocated for pixels that the file is too short to hold, and the
// limits of ImageOptions bound the rest.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "ringrad/core/base/error.h"
#include "ringrad/core/tensor.h"

namespace ringrad {

/// The channels of an image that was read.
enum class Channels {
  stored,  ///< 1 for gray, 3 for colors; one more if a PNG has transparency
  gray,    ///< 1: (299 R + 587 G + 114 B) / 1000, rounded
  rgb,     ///< 3: red, green and blue; gray is repeated, transparency left out
};

struct ImageOptions {
  Channels channels = Channels::stored;
  std::int64_t most_pixels = std::int64_t{1} << 26;      ///< height x width
  std::int64_t most_file_bytes = std::int64_t{1} << 28;  ///< of a compressed file
};

/// The image in a PNG or JPEG file; its first bytes, not its name, say which.
///
/// A palette becomes colors, samples of fewer than 8 bits are scaled to 8, and samples of 16 bits
/// are cut to their upper 8. CMYK becomes RGB.
///
/// Shapes:  (C, H, W), contiguous, on cpu:0
/// DTypes:  uint8
/// Throws:  DataError, naming the file, if it is missing, is neither PNG nor JPEG, is damaged or
///          cut off, or exceeds a limit
Tensor read_image(const std::filesystem::path& path, const ImageOptions& options = {},
                  Where where = Where::current());

/// The same for the bytes of such a file. Messages call them `name`.
Tensor decode_image(std::span<const std::byte> bytes, const ImageOptions& options = {},
                    const std::string& name = "the image", Where where = Where::current());

/// Writes a PNG file, as a whole or not at all (core/file/atomic_file.h); read_image gives the same
/// bytes back.
///
/// Shapes:  (C, H, W) with 1 channel for gray or 3 for colors, or one more for transparency
/// DTypes:  uint8
/// Throws:  ShapeError, DTypeError, DeviceError; DataError if the file cannot be written
void write_png(const std::filesystem::path& path, const Tensor& image,
               Where where = Where::current());

}  // namespace ringrad
