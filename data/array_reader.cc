#include "ringrad/data/array_reader.h"

#include <algorithm>
#include <cstdint>

namespace ringrad {
namespace {

std::size_t checked_bytes(const ByteReader& file, DType dtype, const Shape& shape) {
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

void reverse_each(std::byte* elements, std::size_t bytes, std::size_t element_bytes) {
  if (element_bytes == 1) return;
  for (std::size_t at = 0; at < bytes; at += element_bytes)
    std::reverse(elements + at, elements + at + element_bytes);
}

}  // namespace

Tensor read_array(ByteReader& file, DType dtype, const Shape& shape, std::endian order,
                  Where where) {
  const std::size_t bytes = checked_bytes(file, dtype, shape);
  const Tensor result = empty(shape, {.dtype = dtype, .device = Device()}, where);
  const std::size_t count = file.read({result.raw_data(), bytes});
  if (count < bytes) file.fail(concat("promises ", bytes, " bytes of ", dtype, ' ', shape), count);
  // Reading past the elements also verifies the checksum of compressed bytes.
  std::byte extra;
  if (file.read({&extra, 1}) != 0)
    file.fail(concat("must end after ", bytes, " bytes of ", dtype, ' ', shape), "more bytes");
  if (order != std::endian::native) reverse_each(result.raw_data(), bytes, size_bytes(dtype));
  return result;
}

}  // namespace ringrad
