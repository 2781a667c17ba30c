#include "ringrad/data/idx.h"

#include <array>
#include <bit>
#include <cstdint>
#include <iomanip>
#include <optional>
#include <span>
#include <sstream>
#include <string>

#include "ringrad/data/array_reader.h"
#include "ringrad/data/file_reader.h"

namespace ringrad {
namespace {

struct IdxHeader {
  DType dtype;
  Shape shape;
};

std::optional<DType> dtype_of_code(std::byte code) {
  if (code == std::byte{0x08}) return DType::uint8;
  if (code == std::byte{0x0c}) return DType::int32;
  if (code == std::byte{0x0d}) return DType::float32;
  if (code == std::byte{0x0e}) return DType::float64;
  return std::nullopt;
}

// The format's types that the library lacks.
const char* name_of_other_code(std::byte code) {
  return code == std::byte{0x09} ? "int8" : code == std::byte{0x0b} ? "int16" : nullptr;
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

IdxHeader read_idx_header(FileReader& file) {
  std::array<std::byte, 4> magic{};
  read_header_bytes(file, magic);
  const auto dtype = dtype_of_code(magic[2]);
  const auto dims = std::to_integer<int>(magic[3]);
  if (const char* const name = name_of_other_code(magic[2]);
      name && magic[0] == std::byte{0} && magic[1] == std::byte{0})
    file.fail("must have elements of a type out of 08 0c 0d 0e",
              hexadecimal(std::span(magic).subspan(2, 1)), ", ", name);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !dtype || dims < 1 || dims > kMaxDims)
    file.fail(
        concat("must begin with 00 00, a type out of 08 0c 0d 0e, and 1 to ", kMaxDims, " axes"),
        hexadecimal(magic));

  IdxHeader header{*dtype, Shape::filled(dims, 0)};
  for (std::int64_t& extent : header.shape) {
    std::array<std::byte, 4> bytes{};
    read_header_bytes(file, bytes);
    for (const std::byte byte : bytes) extent = extent << 8 | std::to_integer<std::int64_t>(byte);
  }
  return header;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path, Where where) {
  FileReader file("read_idx", path, where);
  const IdxHeader header = read_idx_header(file);
  return read_array(file, header.dtype, header.shape, std::endian::big, where);
}

}  // namespace ringrad
