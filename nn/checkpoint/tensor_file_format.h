// Where things lie in a tensor file (tensor_file.h), for the sources that write and read them.
// Private to nn/checkpoint.

#pragma once

#include <zlib.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ringrad/nn/checkpoint/generation.h"
#include "ringrad/nn/checkpoint/tensor_file.h"

namespace ringrad::nn::tensor_file {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::string_view kFront = R"({"__metadata__":{"crc32":")";
inline constexpr std::string_view kNoDigits = "00000000";
inline constexpr std::uint64_t kLengthBytes = 8;
inline constexpr std::uint64_t kDigitsAt = kLengthBytes + kFront.size();
inline constexpr std::uint64_t kFixedBytes = kDigitsAt + kNoDigits.size();
inline constexpr std::string_view kGeneration = R"(","generation":")";  // after the checksum
inline constexpr std::uint64_t kMostFrontBytes =
    kFixedBytes + kGeneration.size() + kGenerationDigits;
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit

/// The generation in a file's first bytes; kMostFrontBytes bytes are enough. 0 if the file has
/// none, std::nullopt if its generation is invalid.
std::optional<std::int64_t> generation_after_front(std::string_view bytes);

/// The checksum of bytes that come piece by piece.
class Crc {
 public:
  void add(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;  // at a null pointer, zlib would start over
    value_ = crc32_z(value_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  std::string digits() const { return crc_digits(static_cast<std::uint32_t>(value_)); }

 private:
  uLong value_ = crc32_z(0, nullptr, 0);
};

}  // namespace ringrad::nn::tensor_file
