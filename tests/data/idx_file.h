// Files for the tests of readers: IDX bytes, gzip, and a place to write them.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ringrad::testing {

using Bytes = std::vector<std::uint8_t>;

/// A correct IDX file of the given element type and extents, followed by `elements` as they are.
Bytes idx_file(std::uint8_t type, const std::vector<std::uint32_t>& extents, const Bytes& elements);

/// One gzip member.
Bytes gzip(const Bytes& bytes);

/// A folder for the running test alone.
std::filesystem::path test_folder();

void write_file(const std::filesystem::path& path, const Bytes& bytes);

/// Writes `bytes` into a file of test_folder() and returns its path.
std::filesystem::path file_with(const Bytes& bytes, const std::string& name = "file");

Bytes concatenation(Bytes first, const Bytes& second);

}  // namespace ringrad::testing
