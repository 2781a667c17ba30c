// A whole file as a string.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ringrad/core/base/error.h"

namespace ringrad {

/// Default limit: 4 GiB. A small .gz file can hold more than a machine's memory.
inline constexpr std::int64_t kMostTextBytes = std::int64_t{1} << 32;

/// The bytes of a regular file, decompressed if it is a .gz file. Messages begin with `operation`.
/// Throws DataError if it cannot be read, or holds more than `most_bytes`.
std::string read_text(const std::filesystem::path& path, const std::string& operation = "read_text",
                      std::int64_t most_bytes = kMostTextBytes, Where where = Where::current());

}  // namespace ringrad
