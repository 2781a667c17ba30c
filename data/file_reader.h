// FileReader: the bytes of a file in order; a gzip file is decompressed on the way.
//
// Every problem with a file becomes a DataError that names the file. Callers must compare every
// number read from the file with `most_bytes` before they trust it.

#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ringrad/core/error.h"

namespace ringrad {

class FileReader {
 public:
  /// `operation` opens the messages: "<operation>: <path> must ...; got ...".
  /// Throws: DataError unless path is a regular file that can be opened
  FileReader(std::string operation, const std::filesystem::path& path, Where where);
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  /// Fills `out` and returns its size, or less if the file ends first.
  /// Once a read has come back short, a gzip file's checksum has been verified.
  /// Throws:  DataError if the file cannot be read, or is a gzip file that is damaged or ends early
  std::size_t read(std::span<std::byte> out);

  /// An upper bound on the bytes in the file: the most to allocate for a size that its header
  /// claims.
  std::uint64_t most_bytes() const;

  /// Throws DataError "<operation>: <path> <rule>; got <facts>".
  template <class... Facts>
  [[noreturn]] void fail(const std::string& rule, const Facts&... facts) const {
    throw DataError(concat(operation_, ": ", path_.string(), ' ', rule, "; got ", facts...),
                    where_);
  }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::size_t read_file(std::span<std::byte> out);
  std::size_t inflate_into(std::span<std::byte> out);
  bool refill();

  std::string operation_;
  std::filesystem::path path_;
  Where where_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t file_bytes_ = 0;

  bool compressed_ = false;
  bool between_members_ = false;  ///< all gzip members so far are complete
  std::vector<std::byte> input_;  ///< compressed bytes that stream_ reads from
  z_stream stream_{};
};

}  // namespace ringrad
