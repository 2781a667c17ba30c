// PNG files, as they are and with checksums made to fit. What was read is the same after it was
// written.

#include <cstring>
#include <span>

#include "ringrad/data/image/image.h"
#include "ringrad/tests/fuzz/input.h"

namespace ringrad {
namespace {

// The file with the CRC-32 of each chunk: 4 bytes of length n, 4 of name, n of content, 4 of CRC.
std::string with_checksums(std::string file) {
  const auto* bytes = reinterpret_cast<const Bytef*>(file.data());
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t length = std::size_t{bytes[at]} << 24 | std::size_t{bytes[at + 1]} << 16 |
                               std::size_t{bytes[at + 2]} << 8 | bytes[at + 3];
    if (length > file.size() - at - 12) break;
    const auto sum = static_cast<std::uint32_t>(crc32_z(0, bytes + at + 4, length + 4));
    for (std::size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
  return file;
}

void read(const std::string& file) {
  fuzz::takes<DataError>([&] {
    const Tensor image = decode_image(std::as_bytes(std::span(file)));
    static const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("ringrad_png_fuzz_" + std::to_string(getpid()));
    write_png(path, image);
    const Tensor again = read_image(path);
    std::filesystem::remove(path);
    const auto size = static_cast<std::size_t>(image.numel());
    fuzz::must(again.shape() == image.shape(), "the shape stays");
    fuzz::must(std::memcmp(again.raw_data(), image.raw_data(), size) == 0, "the pixels stay");
  });
}

}  // namespace
}  // namespace ringrad

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file(ringrad::fuzz::text_of(data, size));
  ringrad::read(file);
  ringrad::read(ringrad::with_checksums(file));
  return 0;
}
