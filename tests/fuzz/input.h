// Shared parts of the fuzz targets. A target feeds an input to a reader, which may accept it or
// refuse it with its own type of error. Any other exception, a sanitizer's finding, a hang or the
// use of a gigabyte of memory is a defect. Input that a reader has accepted must come back from the
// writer unchanged.

#pragma once

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ringrad::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Throws unless `holds`: the fuzzer then keeps the input.
inline void must(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

enum class Errors { printable, any };

/// True unless `read` refuses the input with an Error. Its message must be one line without bytes
/// that control a terminal, unless the input is the user's own.
template <class Error, Errors errors = Errors::printable, class Read>
bool takes(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    for (const char c : std::string_view(error.what()))
      must(errors == Errors::any || (c >= ' ' && c <= '~'), "errors are printable");
    return false;
  }
}

/// The input with a matching CRC-32, written in hexadecimal digits after the first front.size()
/// bytes. The sum itself counts these digits as zeros.
inline std::string with_checksum(std::string_view bytes, std::string_view front) {
  constexpr std::size_t kNumDigits = 8;
  std::string result(bytes);
  if (result.size() < front.size() + kNumDigits) return result;
  result.replace(front.size(), kNumDigits, kNumDigits, '0');
  char digits[kNumDigits + 1];
  std::snprintf(digits, sizeof digits, "%08lx",
                crc32_z(0, reinterpret_cast<const Bytef*>(result.data()), result.size()));
  return result.replace(front.size(), kNumDigits, digits);
}

/// A regular file in memory, for readers that need a path.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("input", MFD_CLOEXEC)) { must(file_ >= 0, "memfd_create"); }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void hold(std::string_view bytes) {
    const bool holds = ftruncate(file_, 0) == 0 && pwrite(file_, bytes.data(), bytes.size(), 0) ==
                                                       static_cast<ssize_t>(bytes.size());
    must(holds, "write to a file in memory");
  }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  const int file_;
};

}  // namespace ringrad::fuzz
