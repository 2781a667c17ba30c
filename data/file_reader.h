// FileReader: the bytes of a file in order; a gzip file is decompressed on the way.

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

#include "ringrad/data/byte_reader.h"

namespace ringrad {

class FileReader final : public ByteReader {
 public:
  /// `operation` opens the messages: "<operation>: <path> must ...; got ...".
  /// Throws: DataError unless path is a regular file that can be opened
  FileReader(std::string operation, const std::filesystem::path& path, Where where);
  ~FileReader() override;

  std::size_t read(std::span<std::byte> out) override;
  std::uint64_t most_bytes() const override;

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::size_t read_file(std::span<std::byte> out);
  std::size_t inflate_into(std::span<std::byte> out);
  bool refill();

  std::unique_ptr<std::FILE, CloseFile> file_;
  std::uint64_t file_bytes_ = 0;

  bool compressed_ = false;
  bool between_members_ = false;  ///< all gzip members so far are complete
  std::vector<std::byte> input_;  ///< compressed bytes that stream_ reads from
  z_stream stream_{};
};

}  // namespace ringrad
