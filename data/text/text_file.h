// A whole file as a string.

#pragma once

#include <filesystem>
#include <string>

#include "ringrad/core/error.h"

namespace ringrad {

/// The bytes of a regular file, decompressed if it is a .gz file. Messages begin with `operation`.
/// Throws DataError if it cannot be read.
std::string read_text(const std::filesystem::path& path, const std::string& operation = "read_text",
                      Where where = Where::current());

}  // namespace ringrad
