// Tensor files. A checksum keeps accidents out, but whoever forges a file forges its checksum as well: so each input is
// read twice, as it is and with a checksum that matches.

#include "nn/tensor_file.h"
#include "tests/fuzz/input.h"

namespace {

using namespace ringrad;

void read(std::string_view bytes) {
  static fuzz::MemoryFile file;
  file.hold(bytes);
  fuzz::takes<DataError>([&] { nn::read_tensors(file.path()); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  read(bytes);
  read(fuzz::with_checksum(bytes, R"(........{"__metadata__":{"crc32":")"));
  return 0;
}
