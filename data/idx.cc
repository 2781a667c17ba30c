#include "ringrad/data/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iomanip>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include "ringrad/data/file_reader.h"

namespace ringrad {
namespace {

struct Header {
  DType dtype;
  Shape shape;
};

std::optional<DType> dtype_of_code(std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return DType::uint8;
    case 0x0c:
      return DType::int32;
    case 0x0d:
      return DType::float32;
    case 0x0e:
      return DType::float64;
    default:
      return std::nullopt;
  }
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::ostringstream out;
  out << std::hex << std::setfill('0');
  const char* separator = "";
  for (const std::byte byte : bytes) {
    out << separator << std::setw(2) << std::to_integer<int>(byte);
    separator = " ";
  }
  return std::move(out).str();
}

// Fills `out`, a part of the header.
void read_header_bytes(FileReader& file, std::span<std::byte> out) {
  const std::size_t count = file.read(out);
  if (count < out.size())
    file.fail(concat("must hold ", out.size(), " more bytes of header"), count);
}

Header read_header(FileReader& file) {
  std::array<std::byte, 4> magic{};
  read_header_bytes(file, magic);
  const auto dtype = dtype_of_code(magic[2]);
  const auto dims = std::to_integer<int>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !dtype || dims < 1 || dims > kMaxDims)
    file.fail(
        concat("must begin with 00 00, a type out of 08 0c 0d 0e, and 1 to ", kMaxDims, " axes"),
        hexadecimal(magic));

  Header header{*dtype, Shape::filled(dims, 0)};
  for (std::int64_t& extent : header.shape) {
    std::array<std::byte, 4> bytes{};
    read_header_bytes(file, bytes);
    for (const std::byte byte : bytes) extent = extent << 8 | std::to_integer<std::int64_t>(byte);
  }
  return header;
}

// The size of the elements in bytes, after a check that the file can hold that many.
std::size_t checked_bytes(const FileReader& file, const Header& header) {
  const auto [dtype, shape] = header;
  std::uint64_t bytes = size_bytes(dtype), widest = bytes;
  bool fits = true;
  for (const std::int64_t extent : shape) {
    const auto count = static_cast<std::uint64_t>(extent);
    // Strides must not overflow either, even if another extent is 0.
    fits = fits && !__builtin_mul_overflow(widest, std::max<std::uint64_t>(count, 1), &widest);
    bytes *= count;
  }
  if (!fits || bytes > file.most_bytes() || widest > std::uint64_t{1} << 62)
    file.fail(concat("promises ", dtype, ' ', shape, " and must be long enough for it"),
              "a file of at most ", file.most_bytes(), " bytes");
  return bytes;
}

void from_big_endian(std::byte* elements, std::size_t bytes, std::size_t element_bytes) {
  static_assert(std::endian::native == std::endian::little);
  if (element_bytes == 1) return;
  for (std::size_t at = 0; at < bytes; at += element_bytes)
    std::reverse(elements + at, elements + at + element_bytes);
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path, Where where) {
  FileReader file("read_idx", path, where);
  const Header header = read_header(file);
  const std::size_t bytes = checked_bytes(file, header);

  const Tensor result = empty(header.shape, {.dtype = header.dtype, .device = Device()}, where);
  const std::size_t count = file.read({result.raw_data(), bytes});
  if (count < bytes)
    file.fail(concat("promises ", bytes, " bytes of ", header.dtype, ' ', header.shape), count);
  // Reading past the elements also makes FileReader verify a gzip file's checksum.
  std::byte extra;
  if (file.read({&extra, 1}) != 0)
    file.fail(concat("must end after ", bytes, " bytes of ", header.dtype, ' ', header.shape),
              "more bytes");
  from_big_endian(result.raw_data(), bytes, size_bytes(header.dtype));
  return result;
}

}  // namespace ringrad
